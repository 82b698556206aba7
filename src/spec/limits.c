#include "spec/limits.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct gb_limit_row gb_limit_rows[] = {
#define GB_LIMIT(field, key, decimals, def, least, usual, ceiling, reached)                                  \
    {key, decimals, def, least, usual, ceiling, reached, offsetof(struct gb_limits, field)},
#include "spec/limits.def"
#undef GB_LIMIT
};
const size_t gb_limit_count = ARRAY_LEN(gb_limit_rows);

static int64_t *field(struct gb_limits *limits, const struct gb_limit_row *row)
{
    return (int64_t *)(void *)((char *)limits + row->offset);
}

void gb_limits_init(struct gb_limits *limits)
{
    for (size_t i = 0; i < gb_limit_count; i++)
        *field(limits, &gb_limit_rows[i]) = gb_limit_rows[i].def;
}

const struct gb_limit_row *gb_limits_find(const char *key)
{
    for (size_t i = 0; i < gb_limit_count; i++)
        if (!strcmp(gb_limit_rows[i].key, key))
            return &gb_limit_rows[i];
    return NULL;
}

int64_t gb_limits_get(const struct gb_limits *limits, const struct gb_limit_row *row)
{
    return *(const int64_t *)(const void *)((const char *)limits + row->offset);
}

int gb_limits_set(struct gb_limits *limits, const char *key, const char *text, struct gb_err *err)
{
    const struct gb_limit_row *row = gb_limits_find(key);
    if (!row) {
        int r = gb_err_set(err, GB_ERR_USAGE, 0, "there is no limit called '%.64s'; there are:", key);
        for (size_t i = 0; err && i < gb_limit_count; i++)
            snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text), " %s",
                     gb_limit_rows[i].key);
        return r;
    }
    int64_t value;
    int r = gb_text_parse_decimal(text, row->decimals, &value);
    if (r == 0 && value >= row->least && value <= row->ceiling) {
        *field(limits, row) = value;
        return 0;
    }
    char least[32], ceiling[32];
    gb_text_decimal(row->least, row->decimals, least, sizeof(least));
    gb_text_decimal(row->ceiling, row->decimals, ceiling, sizeof(ceiling));
    return gb_err_set(err, GB_ERR_USAGE, 0, "%s: '%.64s' is not allowed; it takes a %s from %s to %s", key,
                      text, row->decimals ? "number" : "whole number", least, ceiling);
}

void gb_limits_to_json(struct gb_json *j, const char *key, const struct gb_limits *limits)
{
    gb_json_open(j, key, '{');
    for (size_t i = 0; i < gb_limit_count; i++)
        gb_json_decimal(j, gb_limit_rows[i].key, gb_limits_get(limits, &gb_limit_rows[i]),
                        gb_limit_rows[i].decimals);
    gb_json_close(j, '}');
}
