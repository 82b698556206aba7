/* What each setting alone cannot tell: settings that contradict each other. */
#include "config/table.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

/* Each check returns NULL, or the path of the setting that is at fault, with the error set. */

static const char *check_limits(const struct gb_config *config, struct gb_err *err)
{
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        const int64_t limit = gb_limits_get(&config->limits, row);
        const int64_t ceiling = gb_limits_get(&config->ceilings, row);
        char path[64], limit_text[32], ceiling_text[32];
        if (limit <= ceiling)
            continue;
        gb_text_decimal(limit, row->decimals, limit_text, sizeof(limit_text));
        gb_text_decimal(ceiling, row->decimals, ceiling_text, sizeof(ceiling_text));
        gb_err_set(err, GB_ERR_CONFIG, 0, "%s is above ceilings.%s, which is %s; raise that too", limit_text,
                   row->key, ceiling_text);
        snprintf(path, sizeof(path), "limits.%s", row->key);
        return gb_setting_find(path)->path;
    }
    return NULL;
}

static const char *check_pool(const struct gb_config *config, struct gb_err *err)
{
    if (config->pool.low <= config->pool.high)
        return NULL;
    gb_err_set(err, GB_ERR_CONFIG, 0, "%lld is above pool.high, which is %lld; raise that too",
               (long long)config->pool.low, (long long)config->pool.high);
    return "pool.low";
}

static bool is_twice(const struct gb_config_address *all, size_t last)
{
    for (size_t i = 0; i < last; i++)
        if (all[i].len == all[last].len && !memcmp(&all[i].addr, &all[last].addr, all[i].len))
            return true;
    return false;
}

static const char *check_listen(const struct gb_config *config, struct gb_err *err)
{
    struct gb_config_address address[GB_CONFIG_LISTEN];
    if (!config->listen_count)
        gb_err_set(err, GB_ERR_CONFIG, 0, "an empty list: nobody could call");
    for (size_t i = 0; i < config->listen_count; i++) {
        const char *text = config->listen[i];
        if (gb_config_parse_address(text, &address[i], err)) {
            /* What was set had the right form: it is the default. */
            gb_err_set(err, GB_ERR_CONFIG, 0,
                       "its socket \"%.150s\" would have a path of more than 107 bytes; choose a shorter "
                       "runtime_dir, or set listen",
                       text);
            return "runtime_dir";
        }
        if (!address[i].loopback && !config->key_count) {
            gb_err_set(
                    err, GB_ERR_CONFIG, 0,
                    "%s can be reached from other hosts, so there must be keys (`glovebox config key NAME` "
                    "makes one); or listen on 127.0.0.1",
                    text);
            return "listen";
        }
        if (is_twice(address, i)) {
            gb_err_set(err, GB_ERR_CONFIG, 0, "%.150s is there twice", text);
            return "listen";
        }
    }
    return config->listen_count ? NULL : "listen";
}

static const char *check_tls(const struct gb_config *config, struct gb_err *err)
{
    if (!config->tls_certificate == !config->tls_key)
        return NULL;
    gb_err_set(err, GB_ERR_CONFIG, 0, "there is no tls.%s; TLS needs both",
               config->tls_certificate ? "key" : "certificate");
    return config->tls_certificate ? "tls.certificate" : "tls.key";
}

static bool is_same_key(const struct gb_config_key *a, const struct gb_config_key *b)
{
    if (a->file || b->file)
        return a->file && b->file && !strcmp(a->file, b->file);
    return !memcmp(a->sha256, b->sha256, sizeof(a->sha256));
}

static const char *check_keys(const struct gb_config *config, struct gb_err *err)
{
    for (size_t i = 0; i < config->key_count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct gb_config_key *a = &config->keys[k], *b = &config->keys[i];
            if (!strcmp(a->name, b->name)) {
                gb_err_set(err, GB_ERR_CONFIG, 0, "there are two with the name '%s'", a->name);
                return "keys";
            }
            if (is_same_key(a, b)) {
                gb_err_set(err, GB_ERR_CONFIG, 0,
                           "'%s' and '%s' have the same key: a call would not tell whose it is", a->name,
                           b->name);
                return "keys";
            }
            if (!strcmp(a->principal, b->principal) &&
                (a->rate_per_minute != b->rate_per_minute || a->running != b->running)) {
                gb_err_set(err, GB_ERR_CONFIG, 0,
                           "'%s' and '%s' have the same principal, whose calls are counted together; give "
                           "both the "
                           "same rate_per_minute and max_running",
                           a->name, b->name);
                return "keys";
            }
        }
    return NULL;
}

static const char *(*const checks[])(const struct gb_config *config, struct gb_err *err) = {
        check_limits, check_pool, check_listen, check_tls, check_keys};

int gb_config_check(const struct gb_config *config, struct gb_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        const char *path = checks[i](config, err);
        if (!path)
            continue;
        const char *where = gb_config_origin(config, path);
        gb_err_wrap(err, "%s%s%s", where ? where : "", where ? ": " : "", path);
        return -EINVAL;
    }
    return 0;
}
