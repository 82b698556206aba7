/* Where values come from: a file, the environment, the command line; and the files that they name. */
#include "config/config.h"

#include "config/table.h"
#include "config/yaml.h"
#include "base/auto.h"
#include "base/text.h"
#include "sandbox/steps.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <string.h>
#include <sys/stat.h>

#define KEY_LEAST 16
#define KEY_MOST  512

/* --- files --- */

int gb_config_read_file(const char *path, mode_t forbidden, struct gb_buf *out, unsigned *ret_mode,
                        struct gb_err *err)
{
    /* Without O_NONBLOCK a FIFO would keep us waiting for somebody to open its other end. */
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || fcntl(fd, F_SETFL, 0))
        return gb_err_set(err, GB_ERR_CONFIG, errno, "cannot read '%.200s'", path);
    const mode_t wrong = st.st_mode & forbidden;
    if (wrong)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "'%.200s' can be %s by others (mode %03o); chmod %s it",
                          path, wrong & (S_IRGRP | S_IROTH) ? "read" : "written", st.st_mode & 0777,
                          forbidden & S_IRWXG ? "600" : "o-rw");
    char chunk[4096];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gb_err_set(err, GB_ERR_CONFIG, errno, "cannot read '%.200s'", path);
        if (!n)
            break;
        gb_buf_add(out, chunk, (size_t)n);
        explicit_bzero(chunk, (size_t)n); /* it may be a key */
        if (out->failed)
            return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read '%.200s'", path);
        if (gb_buf_truncated(out))
            return gb_err_set(err, GB_ERR_CONFIG, 0, "'%.200s' is larger than %zu bytes", path, out->max);
    }
    if (ret_mode)
        *ret_mode = st.st_mode & 0777;
    return 0;
}

static int apply_file(struct gb_config *config, const char *path, struct gb_err *err)
{
    AUTO_BUF text = {.max = GB_CONFIG_BYTES};
    int r = gb_config_read_file(path, S_IWOTH, &text, &config->file_mode, err);
    config->file = r ? NULL : strdup(path);
    if (!r && !config->file)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
    return r ? r : gb_config_apply_text(config, text.data ? text.data : "", text.len, path, err);
}

/* A user's own file; NULL for root, and where the environment says too little. */
static char *own_file(void)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const bool xdg = base && *base == '/';
    char *path = NULL;
    if (!xdg)
        base = getenv("HOME");
    if (geteuid() == 0 || !base || *base != '/')
        return NULL;
    return asprintf(&path, "%s%s/glovebox/glovebox.yaml", base, xdg ? "" : "/.config") < 0 ? NULL : path;
}

/* The first of the usual places that has a file. */
static int apply_usual_file(struct gb_config *config, struct gb_err *err)
{
    AUTO_FREE char *own = own_file();
    const char *const places[] = {own, "/etc/glovebox/glovebox.yaml"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct gb_err tried = {0}; /* a file that is not there is no error of the caller's */
        int r = places[i] ? apply_file(config, places[i], &tried) : -ENOENT;
        if (r == -ENOENT || r == -ENOTDIR)
            continue;
        if (r && err)
            *err = tried;
        return r;
    }
    return 0;
}

/* --- single values as text --- */

static json_t *split(const char *text)
{
    AUTO_JSON list = json_array();
    while (list && *text) {
        const size_t len = strcspn(text, ",");
        size_t first = 0, last = len;
        while (first < last && text[first] == ' ')
            first++;
        while (last > first && text[last - 1] == ' ')
            last--;
        if (json_array_append_new(list, json_stringn(text + first, last - first)))
            return NULL;
        text += len + (text[len] == ',');
    }
    return TAKE_PTR(list);
}

/* Text that is empty means: the default. The reader would quote what may be a secret. */
static int read_tree(const struct gb_setting *row, const char *text, json_t **ret, struct gb_err *err)
{
    struct gb_err why = {0};
    *ret = *text ? NULL : json_null();
    if (*ret || !gb_json_read(text, strlen(text), ret, &why))
        return 0;
    const bool secret = !strcmp(row->path, "secrets");
    return gb_err_set(err, GB_ERR_CONFIG, 0, "it takes JSON%s%s", secret ? "" : ": ", secret ? "" : why.text);
}

/* What the text of a variable or flag means depends on the kind of setting. Text that is empty means: the
 * default. */
static int apply_value(struct gb_config *config, const char *path, const char *text,
                       const struct gb_config_source *source, struct gb_err *err)
{
    const struct gb_setting *row = gb_setting_find(path);
    AUTO_JSON value = NULL;
    int r = 0;
    if (row && row->kind == GB_KIND_TREE)
        r = read_tree(row, text, &value, err);
    else if (row && row->kind == GB_KIND_KEYS)
        r = gb_json_read(text, strlen(text), &value, NULL) /* it would quote what may be a key */
                    ? gb_err_set(err, GB_ERR_CONFIG, 0,
                                 "it takes JSON: [{\"name\": \"alice\", \"sha256\": \"…\"}]")
                    : 0;
    else if (row && (row->kind == GB_KIND_LIST || row->kind == GB_KIND_WORDS))
        value = split(text);
    else if (row && (row->kind == GB_KIND_TEXT || row->kind == GB_KIND_CHOICE))
        value = *text ? json_string(text) : json_null();
    else
        value = *text ? gb_yaml_scalar(text, strlen(text)) : json_string("");
    if (!r && !value)
        r = gb_err_set(err, GB_ERR_CONFIG, 0, "it is not valid UTF-8");
    if (r) {
        gb_err_wrap(err, "%s: %s", source->name, path);
        return r;
    }
    return gb_config_apply_one(config, path, value, source, err);
}

/* --- environment --- */

/* Variables that begin like settings and are none. */
static bool is_other_variable(const char *name)
{
    /* Where commands find a service, and what they call it with; see cli/client.h. */
    static const char *const others[] = {"GLOVEBOX_URL=", "GLOVEBOX_KEY=", "GLOVEBOX_TEST_"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (!strncmp(name, others[i], strlen(others[i])))
            return true;
    return false;
}

/* The setting that NAME=VALUE is for. */
static const struct gb_setting *find_variable(const char *entry, size_t name_len)
{
    char name[128];
    for (size_t i = 0; i < gb_setting_count; i++) {
        gb_config_variable(gb_settings[i].path, name, sizeof(name));
        if (!gb_settings[i].handed && strlen(name) == name_len && !memcmp(name, entry, name_len))
            return &gb_settings[i];
    }
    return NULL;
}

/* Names the setting that a variable like it would be for. */
static int unknown_variable(const char *name, int len, struct gb_err *err)
{
    char path[64];
    const int prefix = (int)strlen("GLOVEBOX_");
    snprintf(path, sizeof(path), "%.*s", len - prefix, name + prefix);
    for (char *p = path; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    char *underline = strchr(path, '_');
    if (underline) {
        *underline = '\0';
        *underline = gb_setting_is_section(path) ? '.' : '_';
    }
    int r = gb_setting_unknown(path, err);
    gb_err_wrap(err, "environment variable %.*s: %s", len < 80 ? len : 80, name, path);
    return r;
}

static int apply_environment(struct gb_config *config, struct gb_err *err)
{
    for (char **entry = environ; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (strncmp(*entry, "GLOVEBOX_", strlen("GLOVEBOX_")) || !equals || is_other_variable(*entry))
            continue;
        const int len = (int)(equals - *entry);
        const struct gb_setting *row = find_variable(*entry, (size_t)len);
        if (!row)
            return unknown_variable(*entry, len, err);
        char place[160];
        snprintf(place, sizeof(place), "environment variable %.*s", len, *entry);
        const struct gb_config_source source = {.name = place};
        int r = apply_value(config, row->path, equals + 1, &source, err);
        if (r)
            return r;
    }
    return 0;
}

/* --- what the settings name --- */

/* A key as a caller would send it in a header: visible ASCII, long enough not to be guessed. One line end
 * behind it belongs to the editor, not to the key. */
static int hash_key(struct gb_config_key *key, struct gb_buf *text, struct gb_err *err)
{
    if (text->len && text->data[text->len - 1] == '\n')
        text->len--;
    if (text->len && text->data[text->len - 1] == '\r')
        text->len--;
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] <= ' ' || text->data[i] > '~')
            return gb_err_set(err, GB_ERR_CONFIG, 0,
                              "'%.200s' must hold one line of visible ASCII characters without spaces",
                              key->file);
    if (text->len < KEY_LEAST)
        return gb_err_set(err, GB_ERR_CONFIG, 0,
                          "'%.200s' holds a key of %zu bytes; it takes %d or more (`glovebox config key "
                          "NAME` makes one)",
                          key->file, text->len, KEY_LEAST);
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, (const uint8_t *)text->data, text->len);
    SHA256Final(key->sha256, &ctx);
    free(key->file);
    key->file = NULL;
    return 0;
}

static int read_key_files(struct gb_config *config, struct gb_err *err)
{
    for (size_t i = 0; i < config->key_count; i++) {
        struct gb_config_key *key = &config->keys[i];
        AUTO_BUF text = {.max = KEY_MOST};
        if (!key->file)
            continue;
        int r = gb_config_read_file(key->file, S_IRWXG | S_IRWXO, &text, NULL, err);
        r = r ? r : hash_key(key, &text, err);
        if (text.data)
            explicit_bzero(text.data, text.size);
        if (r) {
            gb_err_wrap(err, "%s: keys: key '%s'", gb_config_origin(config, "keys"), key->name);
            return r;
        }
    }
    return 0;
}

static int read_pem(struct gb_config *config, const char *path, mode_t forbidden, char **member,
                    struct gb_err *err)
{
    const char *file = *(char **)(void *)((char *)config + gb_setting_find(path)->offset);
    AUTO_BUF text = {.max = GB_CONFIG_BYTES};
    if (!file)
        return 0;
    int r = gb_config_read_file(file, forbidden, &text, NULL, err);
    if (!r && (!text.data || gb_text_find_binary(text.data, text.len) < text.len || gb_form_pem(text.data)))
        r = gb_err_set(err, GB_ERR_CONFIG, 0, "'%.200s' is not in PEM form (-----BEGIN …)", file);
    if (r)
        gb_err_wrap(err, "%s: %s", gb_config_origin(config, path), path);
    else
        *member = TAKE_PTR(text.data);
    return r;
}

static int check_degraded(const struct gb_config *config, struct gb_err *err)
{
    int r = config->allow_degraded ? gb_steps_check_degraded(config->allow_degraded, err) : 0;
    if (r)
        gb_err_wrap(err, "%s: allow_degraded", gb_config_origin(config, "allow_degraded"));
    return r;
}

static int check_directories(const struct gb_config *config, struct gb_err *err)
{
    const char *missing = !config->state_dir ? "state_dir" : !config->runtime_dir ? "runtime_dir" : NULL;
    return missing ? gb_err_set(err, GB_ERR_CONFIG, 0,
                                "%s: there is no default, because the environment has no HOME; set it",
                                missing)
                   : 0;
}

/* --- doors --- */

int gb_config_load(const char *file, const struct gb_config_override *overrides, size_t override_count,
                   struct gb_config **ret_config, struct gb_err *err)
{
    static const struct gb_config_source command_line = {.name = "command line", .visible = true};
    AUTO_CONFIG config = gb_config_new();
    AUTO_CONFIG done = NULL;
    if (!config)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
    int r = file ? apply_file(config, file, err) : apply_usual_file(config, err);
    r = r ? r : apply_environment(config, err);
    for (size_t i = 0; !r && i < override_count; i++)
        r = apply_value(config, overrides[i].path, overrides[i].value, &command_line, err);
    r = r ? r : check_degraded(config, err);
    r = r ? r : read_key_files(config, err);
    r = r ? r : gb_secrets_read(config, err);
    r = r ? r : read_pem(config, "tls.certificate", 0, &config->tls_certificate_pem, err);
    r = r ? r : read_pem(config, "tls.key", S_IRWXO, &config->tls_key_pem, err);
    r = gb_config_complete(&config, r, &done, err);
    r = r ? r : check_directories(done, err);
    if (!r)
        *ret_config = TAKE_PTR(done);
    return r;
}
