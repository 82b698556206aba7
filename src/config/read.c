/* YAML in memory to a configuration. Apart from load.c, so that the fuzz target links no sandbox; and from
 * config.c, so that the front links no YAML. */
#include "config/table.h"
#include "config/yaml.h"
#include "base/auto.h"

#include <errno.h>

int gb_config_apply_text(struct gb_config *config, const char *text, size_t len, const char *name,
                         struct gb_err *err)
{
    AUTO_JSON tree = NULL;
    AUTO_JSON lines = NULL;
    int r = gb_yaml_read(text, len, name, &tree, &lines, err);
    const struct gb_config_source source = {.name = name, .lines = lines};
    return r ? r : gb_config_apply(config, tree, &source, err);
}

int gb_config_read(const char *text, size_t len, struct gb_config **ret_config, struct gb_err *err)
{
    AUTO_CONFIG config = gb_config_new();
    if (!config)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "read the configuration");
    int r = len > GB_CONFIG_BYTES
                    ? gb_err_set(err, GB_ERR_CONFIG, 0, "it is larger than %zu bytes", GB_CONFIG_BYTES)
                    : gb_config_apply_text(config, text, len, NULL, err);
    return gb_config_complete(&config, r, ret_config, err);
}
