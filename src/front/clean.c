#include "front/clean.h"

#include "base/auto.h"

#include <stdio.h>
#include <string.h>

#define DIGITS 340 /* of the largest number there is, and some behind the point */

static void clean_text(struct cleaner *c, const char *text, size_t len, struct gb_buf *out)
{
    /* All of it comes at once: no more than that can be held. */
    struct gb_redact *r = gb_redact_new(c->rules, len < GB_REDACT_HOLD ? len : GB_REDACT_HOLD);
    out->max = len * 8 + 256; /* a mark is longer than what it stands for */
    if (!r || gb_redact_feed(r, text, len, true, out) || gb_buf_truncated(out))
        c->failed = true;
    c->hits += r ? gb_redact_hits(r) : 0;
    gb_redact_free(r);
}

static json_t *clean_string(struct cleaner *c, const json_t *value)
{
    AUTO_BUF out = {0};
    clean_text(c, json_string_value(value), json_string_length(value), &out);
    return json_stringn(out.data ? out.data : "", out.len);
}

/* A number that is one of the secrets, or has it among its digits: then it becomes a text. NULL: it is none.
 */
static json_t *clean_digits(struct cleaner *c, const struct gb_rules *rules, const char *text)
{
    struct cleaner own = {.rules = rules};
    AUTO_BUF out = {0};
    if (!rules)
        return NULL;
    clean_text(&own, text, strlen(text), &out);
    c->failed = c->failed || own.failed;
    c->hits += own.hits;
    return own.hits ? json_stringn(out.data ? out.data : "", out.len) : NULL;
}

/* As it will be written; and, for secrets, with all its digits, which an exponent or rounding would hide from
 * us but not from a reader. */
static json_t *clean_number(struct cleaner *c, json_t *value)
{
    char text[DIGITS];
    if (json_is_integer(value))
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, sizeof(text), "%.15g", json_real_value(value));
    json_t *clean = clean_digits(c, c->rules, text);
    if (!clean && json_is_real(value)) {
        snprintf(text, sizeof(text), "%.17f", json_real_value(value));
        clean = clean_digits(c, c->secrets, text);
    }
    return clean ? clean : json_incref(value);
}

/* NOLINTBEGIN(misc-no-recursion): the reader takes GB_JSON_DEPTH levels */
static json_t *clean_array(struct cleaner *c, const json_t *value)
{
    json_t *array = json_array();
    for (size_t i = 0; !c->failed && i < json_array_size(value); i++)
        if (json_array_append_new(array, clean_value(c, json_array_get(value, i))))
            c->failed = true;
    return array;
}

/* Names are data of somebody, too. Two that become the same are told apart, so that no value is lost; the
 * number only grows, so that a hostile object costs no more than its length. */
static json_t *clean_object(struct cleaner *c, json_t *value)
{
    json_t *object = json_object(), *item;
    const char *name;
    unsigned number = 2;
    json_object_foreach(value, name, item) {
        AUTO_BUF key = {0};
        clean_text(c, name, strlen(name), &key);
        gb_buf_add(&key, "", 1);
        AUTO_FREE char *other = NULL;
        while (!c->failed && key.data && json_object_get(object, other ? other : key.data)) {
            free(TAKE_PTR(other));
            if (asprintf(&other, "%s (%u)", key.data, number++) < 0) {
                other = NULL;
                c->failed = true;
            }
        }
        if (!key.data || json_object_set_new(object, other ? other : key.data, clean_value(c, item)))
            c->failed = true;
        if (c->failed)
            break;
    }
    return object;
}

json_t *clean_value(struct cleaner *c, json_t *value)
{
    if (json_is_string(value))
        return clean_string(c, value);
    if (json_is_array(value))
        return clean_array(c, value);
    if (json_is_object(value))
        return clean_object(c, value);
    if (json_is_number(value))
        return clean_number(c, value);
    return json_incref(value); /* true, false, null */
}

/* NOLINTEND(misc-no-recursion) */

void clean_field(const struct gb_rules *rules, char *text, size_t size)
{
    struct cleaner c = {.rules = rules};
    AUTO_BUF out = {0};
    text[size - 1] = '\0';
    if (!rules)
        return;
    clean_text(&c, text, strlen(text), &out);
    snprintf(text, size, "%.*s", c.failed ? 0 : (int)out.len, out.data ? out.data : "");
}
