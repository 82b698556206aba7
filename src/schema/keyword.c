#include "schema/tree.h"

#include "base/auto.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define D7   GB_DRAFT_7
#define D20  GB_DRAFT_2020
#define BOTH (GB_DRAFT_7 | GB_DRAFT_2020)

const struct gb_keyword gb_keywords[] = {
#define GB_KEYWORD(name, drafts, vocabulary, form, compile)                                                  \
    {name, drafts, GB_VOCAB_##vocabulary, GB_FORM_##form, compile},
#include "schema/keywords.def"
#undef GB_KEYWORD
};
const size_t gb_keywords_count = ARRAY_LEN(gb_keywords);

int gb_keyword_refuse(struct gb_err *err, const char *where, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return gb_err_set(err, GB_ERR_CONFIG, 0, "at %.160s: %s", *where ? where : "the top of the schema", text);
}

const char *gb_keyword_draft_name(enum gb_draft draft)
{
    return draft == GB_DRAFT_7 ? "draft-07" : "2020-12";
}

const struct gb_keyword *gb_keyword_find(enum gb_draft draft, const char *name)
{
    for (size_t i = 0; i < gb_keywords_count; i++)
        if (gb_keywords[i].drafts & draft && !strcmp(gb_keywords[i].name, name))
            return &gb_keywords[i];
    return NULL;
}

#define NAME_MOST 32

/* How many letters must change to make one word of the other, case aside. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MOST + 1];
    const size_t n = strlen(b);
    if (strlen(a) > NAME_MOST || n > NAME_MOST)
        return NAME_MOST;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = corner + (strncasecmp(a + i - 1, b + j - 1, 1) != 0);
            corner = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[n];
}

/* What other dialects say, and what it is here. */
static const struct {
    const char *name, *advice;
} foreign[] = {
        {"nullable", "write \"type\": [\"string\", \"null\"], or what its type is"},
        {"example", "write \"examples\": [...]"},
        {"discriminator", "write \"const\" in each branch of oneOf"},
        {"id", "write \"$id\""},
        {"$recursiveRef", "write \"$dynamicRef\""},
        {"$recursiveAnchor", "write \"$dynamicAnchor\""},
};

void gb_keyword_hint(enum gb_draft draft, const char *name, char *ret_hint, size_t size)
{
    size_t best = 3;
    ret_hint[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        if (!strcmp(foreign[i].name, name)) {
            snprintf(ret_hint, size, "; %s", foreign[i].advice);
            return;
        }
    for (size_t i = 0; i < gb_keywords_count; i++) {
        const struct gb_keyword *k = &gb_keywords[i];
        const size_t d = distance(name, k->name);
        if (!(k->drafts & draft) && !strcmp(k->name, name)) {
            snprintf(ret_hint, size, "; it is a keyword of %s: say so with \"$schema\"",
                     gb_keyword_draft_name(k->drafts & D7 ? D7 : D20));
            return;
        }
        if (k->drafts & draft && d < best && d < strlen(name)) {
            best = d;
            snprintf(ret_hint, size, "; did you mean '%s'?", k->name);
        }
    }
}

/* --- the forms of values --- */

static bool all_texts(const json_t *value)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)value, i, item)
        if (!json_is_string(item))
            return false;
    return json_is_array(value);
}

static bool is_schema(const json_t *value)
{
    return json_is_object(value) || json_is_boolean(value);
}

static bool is_any(const json_t *value)
{
    return value;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_bool(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_positive(const json_t *value)
{
    if (!json_is_number(value))
        return false;
    const struct gb_decimal d = gb_decimal_of(value);
    return d.digits && !d.negative;
}

static bool is_count(const json_t *value)
{
    size_t count;
    if (!json_is_number(value))
        return false;
    const struct gb_decimal d = gb_decimal_of(value);
    return gb_decimal_is_count(&d, &count) && count <= SIZE_MAX / 2;
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_array(const json_t *value)
{
    return json_is_array(value);
}

static bool all_schemas(const json_t *value)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)value, i, item)
        if (!is_schema(item))
            return false;
    return json_array_size(value) > 0;
}

static bool is_items(const json_t *value)
{
    return is_schema(value) || all_schemas(value) || (json_is_array(value) && !json_array_size(value));
}

static bool is_texts_or_schema(const json_t *value)
{
    return is_schema(value) || all_texts(value);
}

static bool each_member(const json_t *value, bool (*is)(const json_t *member))
{
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member)
        if (!is(member))
            return false;
    return json_is_object(value);
}

static bool is_schema_map(const json_t *value)
{
    return each_member(value, is_schema);
}

static bool is_texts_map(const json_t *value)
{
    return each_member(value, all_texts);
}

static bool is_dependencies(const json_t *value)
{
    return each_member(value, is_texts_or_schema);
}

static bool is_types(const json_t *value)
{
    return json_is_string(value) || (all_texts(value) && json_array_size(value));
}

static const struct {
    bool (*is)(const json_t *value);
    const char *what;
} forms[] = {
        [GB_FORM_ANY] = {is_any, "anything"},
        [GB_FORM_TEXT] = {is_text, "a string"},
        [GB_FORM_BOOL] = {is_bool, "true or false"},
        [GB_FORM_NUMBER] = {is_number, "a number"},
        [GB_FORM_POSITIVE] = {is_positive, "a number above 0"},
        [GB_FORM_COUNT] = {is_count, "a whole number from 0 up"},
        [GB_FORM_OBJECT] = {is_object, "an object"},
        [GB_FORM_ARRAY] = {is_array, "an array"},
        [GB_FORM_TEXTS] = {all_texts, "an array of strings"},
        [GB_FORM_TEXTS_MAP] = {is_texts_map, "an object of arrays of strings"},
        [GB_FORM_TYPES] = {is_types, "a string or an array of strings"},
        [GB_FORM_SCHEMA] = {is_schema, "a schema (an object, true or false)"},
        [GB_FORM_SCHEMAS] = {all_schemas, "an array of at least one schema"},
        [GB_FORM_SCHEMA_MAP] = {is_schema_map, "an object whose members are schemas"},
        [GB_FORM_ITEMS] = {is_items, "a schema or an array of schemas"},
        [GB_FORM_DEPENDENCIES] = {is_dependencies,
                                  "an object whose members are schemas or arrays of strings"},
};

int gb_keyword_check(const struct gb_keyword *k, const json_t *value, const char *where, struct gb_err *err)
{
    if (forms[k->form].is(value))
        return 0;
    if (k->form == GB_FORM_SCHEMA && json_is_array(value) && !strcmp(k->name, "items"))
        return gb_keyword_refuse(err, where,
                                 "must be %s; a list of schemas is called 'prefixItems' since 2020-12",
                                 forms[k->form].what);
    return gb_keyword_refuse(err, where, "must be %s", forms[k->form].what);
}
