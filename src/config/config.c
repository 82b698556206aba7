/* A configuration as a whole: made, filled from a tree of values, completed, written, freed. */
#include "config/config.h"

#include "config/table.h"
#include "base/auto.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

struct gb_config *gb_config_new(void)
{
    struct gb_config *config = calloc(1, sizeof(*config));
    if (!config)
        return NULL;
    config->set_by = calloc(gb_setting_count, sizeof(*config->set_by));
    if (!config->set_by) {
        free(config);
        return NULL;
    }
    for (size_t i = 0; i < gb_setting_count; i++)
        gb_setting_reset(config, &gb_settings[i]);
    return config;
}

void gb_config_free(struct gb_config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < gb_setting_count; i++) {
        gb_setting_reset(config, &gb_settings[i]);
        free(config->set_by[i]);
    }
    json_decref(config->lines);
    free(config->set_by);
    free(config->file);
    free(config);
}

const char *gb_config_origin(const struct gb_config *config, const char *path)
{
    const struct gb_setting *row = gb_setting_find(path);
    return row ? config->set_by[row - gb_settings] : NULL;
}

void gb_config_variable(const char *path, char *buf, size_t size)
{
    snprintf(buf, size, "GLOVEBOX_%s", path);
    for (char *p = buf; *p; p++)
        *p = (char)(*p == '.' ? '_' : toupper((unsigned char)*p));
}

/* --- from a tree of values --- */

/* "FILE:LINE", "FILE", "line LINE", or nothing. */
static void place(const struct gb_config_source *source, const char *path, char *buf, size_t size)
{
    const json_int_t line = json_integer_value(json_object_get(source->lines, path));
    if (source->name && line)
        snprintf(buf, size, "%.200s:%lld", source->name, (long long)line);
    else if (line)
        snprintf(buf, size, "line %lld", (long long)line);
    else
        snprintf(buf, size, "%.200s", source->name ? source->name : "");
}

/* Puts "PLACE: PATH: " before the error. */
static int fail_at(const struct gb_config_source *source, const char *path, int r, struct gb_err *err)
{
    char where[256];
    place(source, path, where, sizeof(where));
    gb_err_wrap(err, "%s%s%.80s", where, *where ? ": " : "", path);
    return r;
}

int gb_config_apply_one(struct gb_config *config, const char *path, const json_t *value,
                        const struct gb_config_source *source, struct gb_err *err)
{
    const struct gb_setting *row = gb_setting_find(path);
    int r;
    if (row && source->visible && gb_tree_has_values(row, value))
        r = gb_err_set(
                err, GB_ERR_CONFIG, 0,
                "every user of this host can see what is on a command line; take the value from a file or "
                "env");
    else if (row && (!row->handed || source->handed))
        r = gb_setting_set(config, row, value, err);
    else if (gb_setting_is_section(path))
        r = gb_err_set(err, GB_ERR_CONFIG, 0, "it has settings of its own, and no value");
    else
        r = gb_setting_unknown(path, err);
    if (r || !row)
        return fail_at(source, path, r, err);
    if (row->kind == GB_KIND_TREE)
        gb_tree_keep_lines(config, row, source->lines);
    char where[256], **set_by = &config->set_by[row - gb_settings];
    place(source, path, where, sizeof(where));
    free(*set_by);
    *set_by = json_is_null(value) ? NULL : strdup(*where ? where : "the configuration");
    if (!json_is_null(value) && !*set_by)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
    return 0;
}

static int apply_section(struct gb_config *config, const char *section, json_t *values,
                         const struct gb_config_source *source, struct gb_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(values, name, value) {
        char path[256]; /* a name that does not fit is unknown however much of it is seen */
        snprintf(path, sizeof(path), "%s.%.160s", section, name);
        int r = gb_config_apply_one(config, path, value, source, err);
        if (r)
            return r;
    }
    return 0;
}

/* A path as it is written on the command line is no name in a file. */
static int refuse_path(const char *path, const struct gb_config_source *source, struct gb_err *err)
{
    const int len = (int)strcspn(path, ".");
    int r = gb_err_set(err, GB_ERR_CONFIG, 0, "write %.*s: and below it %s:", len, path, path + len + 1);
    return fail_at(source, path, r, err);
}

int gb_config_apply(struct gb_config *config, const json_t *tree, const struct gb_config_source *source,
                    struct gb_err *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(tree))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "%s%sthe configuration is made of settings: name: value",
                          source->name ? source->name : "", source->name ? ": " : "");
    json_object_foreach((json_t *)tree, name, value) {
        const bool section = gb_setting_is_section(name);
        int r = 0;
        if (section && json_is_object(value))
            r = apply_section(config, name, value, source, err);
        else if (section && json_is_null(value))
            continue; /* all of it is commented out */
        else if (strchr(name, '.') && gb_setting_find(name))
            r = refuse_path(name, source, err);
        else
            r = gb_config_apply_one(config, name, value, source, err);
        if (r)
            return r;
    }
    return 0;
}

int gb_config_complete(struct gb_config **config, int r, struct gb_config **ret_config, struct gb_err *err)
{
    r = r ? r : gb_config_finish(*config, err);
    r = r ? r : gb_config_check(*config, err);
    if (!r) {
        *ret_config = TAKE_PTR(*config);
    } else if (err) {
        gb_text_defuse(err->text); /* it quotes the file */
        if (err->code != GB_ERR_INTERNAL)
            err->code = GB_ERR_CONFIG; /* whichever reader it was that complained */
    }
    return r;
}

int gb_config_from_json(const char *text, size_t len, struct gb_config **ret_config, struct gb_err *err)
{
    static const struct gb_config_source source = {.handed = true};
    AUTO_JSON tree = NULL;
    AUTO_CONFIG config = gb_config_new();
    if (!config)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
    int r = gb_json_read(text, len, &tree, err);
    r = r ? r : gb_config_apply(config, tree, &source, err);
    return gb_config_complete(&config, r, ret_config, err);
}

/* --- defaults that depend on the host --- */

static int64_t boxes_for_host(void)
{
    cpu_set_t set;
    const int cpus =
            sched_getaffinity(0, sizeof(set), &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    return cpus < 2 ? 4 : cpus > 2048 ? 4096 : 2 * cpus;
}

#define POOL_HIGH_MOST 64 /* unless asked for: each box that waits is memory that nobody uses */

/* Of two marks that contradict each other, the one that nobody has set gives way. */
static void finish_pool(struct gb_config *config)
{
    int64_t *low = &config->pool.low, *high = &config->pool.high;
    if (*high == GB_COMPUTED) {
        *high = config->boxes.running < POOL_HIGH_MOST ? config->boxes.running : POOL_HIGH_MOST;
        if (*high < *low && gb_config_origin(config, "pool.low"))
            *high = *low;
    }
    if (*low > *high && !gb_config_origin(config, "pool.low"))
        *low = *high;
}

/* The text of a variable if it is an absolute path, as everybody wants it who defines such variables; of a
 * list, which systemd may give, the first. NULL if there is none. */
static char *directory(const char *variable, const char *below)
{
    const char *value = getenv(variable);
    char *path = NULL;
    if (!value || *value != '/')
        return NULL;
    return asprintf(&path, "%.*s%s", (int)strcspn(value, ":"), value, below) < 0 ? NULL : path;
}

static char *default_state_dir(void)
{
    char *path = directory("STATE_DIRECTORY", "");
    if (!path && geteuid() == 0)
        return strdup("/var/lib/glovebox");
    path = path ? path : directory("XDG_STATE_HOME", "/glovebox");
    return path ? path : directory("HOME", "/.local/state/glovebox");
}

static char *default_runtime_dir(const char *state_dir)
{
    char *path = directory("RUNTIME_DIRECTORY", "");
    if (!path && geteuid() == 0)
        return strdup("/run/glovebox");
    path = path ? path : directory("XDG_RUNTIME_DIR", "/glovebox");
    if (!path && state_dir && asprintf(&path, "%s/run", state_dir) < 0)
        return NULL;
    return path;
}

static int default_listen(struct gb_config *config)
{
    config->listen[0] = strdup("127.0.0.1:8640");
    if (!config->listen[0])
        return -ENOMEM;
    config->listen_count = 1;
    if (!config->runtime_dir)
        return 0;
    if (asprintf(&config->listen[1], "unix:%s/glovebox.sock", config->runtime_dir) < 0)
        return -ENOMEM;
    config->listen_count = 2;
    return 0;
}

int gb_config_finish(struct gb_config *config, struct gb_err *err)
{
    if (config->boxes.running == GB_COMPUTED)
        config->boxes.running = boxes_for_host();
    finish_pool(config);
    if (!config->state_dir)
        config->state_dir = default_state_dir();
    if (!config->runtime_dir)
        config->runtime_dir = default_runtime_dir(config->state_dir);
    int r = gb_config_origin(config, "listen") ? 0 : default_listen(config);
    if (r)
        return gb_err_set(err, GB_ERR_INTERNAL, -r, "read the configuration");
    /* A lowered ceiling lowers the limits that nobody has set. */
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        char path[64];
        snprintf(path, sizeof(path), "limits.%s", row->key);
        const int64_t ceiling = gb_limits_get(&config->ceilings, row);
        if (!gb_config_origin(config, path) && gb_limits_get(&config->limits, row) > ceiling)
            *(int64_t *)(void *)((char *)&config->limits + row->offset) = ceiling;
    }
    return 0;
}

/* --- writing --- */

int gb_config_write(const struct gb_config *config, bool secrets, struct gb_buf *out, struct gb_err *err)
{
    struct gb_json j = {.out = out, .first = true};
    const char *section = "";
    size_t section_len = 0;
    gb_json_open(&j, NULL, '{');
    for (size_t i = 0; i < gb_setting_count; i++) {
        const struct gb_setting *row = &gb_settings[i];
        const char *dot = strchr(row->path, '.');
        const size_t len = dot ? (size_t)(dot - row->path) : 0;
        if (row->handed && !secrets)
            continue;
        if (len != section_len || memcmp(row->path, section, len) != 0) {
            char name[32];
            if (section_len)
                gb_json_close(&j, '}');
            snprintf(name, sizeof(name), "%.*s", (int)len, row->path);
            if (len)
                gb_json_open(&j, name, '{');
            section = row->path;
            section_len = len;
        }
        const char *name = dot ? dot + 1 : row->path;
        if (row->kind == GB_KIND_KEYS && secrets)
            gb_keys_write_hashes(config, name, &j);
        else if (row->kind == GB_KIND_TREE && secrets)
            gb_tree_write_handed(config, row, name, &j);
        else
            gb_setting_write(config, row, name, &j);
    }
    if (section_len)
        gb_json_close(&j, '}');
    gb_json_close(&j, '}');
    if (out->failed)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "write the configuration");
    return gb_buf_truncated(out) ? gb_err_set(err, GB_ERR_INTERNAL, EMSGSIZE, "write the configuration") : 0;
}
