#include "broker/fill.h"

#include "base/auto.h"
#include "policy/template.h"

#include <errno.h>
#include <string.h>

#define VALUE_MOST ((size_t)1 << 20)

static void add_encoded(struct gb_buf *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        const bool plain =
                (*p >= '0' && *p <= '9') || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z') || strchr("-._~", *p);
        gb_buf_printf(out, plain ? "%c" : "%%%02X", *p);
    }
}

static int add_value(struct tool_call *call, const char *name, const char *text, size_t len,
                     enum fill_form form, struct gb_buf *out)
{
    bool good = strlen(text) == len && len <= VALUE_MOST;
    for (size_t i = 0; form == FILL_TEXT && i < len; i++)
        good &= (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
    if (!good) {
        gb_denial_add(call->denials, &call->denial_count, GB_DENIAL_ARGUMENTS, NULL,
                      "arguments.%s: must be %s", name,
                      form == FILL_TEXT ? "one line without control characters"
                                        : "text without NUL, up to 1 MiB");
        return -EINVAL;
    }
    if (form == FILL_URL)
        add_encoded(out, text);
    else
        gb_buf_add(out, text, len);
    return 0;
}

/* An argument as text: strings as they are, everything else as JSON. */
static int add_argument(struct tool_call *call, const char *name, enum fill_form form, struct gb_buf *out)
{
    const json_t *value = json_object_get(call->arguments, name);
    if (!value || json_is_null(value))
        return -ENOENT;
    if (json_is_string(value))
        return add_value(call, name, json_string_value(value), json_string_length(value), form, out);
    AUTO_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    return text ? add_value(call, name, text, strlen(text), form, out) : -ENOMEM;
}

int fill_text(struct tool_call *call, const char *text, enum fill_form form, struct gb_buf *out,
              bool *ret_secret, const char **ret_absent)
{
    struct gb_template_item item;
    size_t at = 0, done = 0;
    while (gb_template_next(text, &at, &item)) {
        gb_buf_add(out, text + done, item.start - done);
        done = item.end;
        if (item.literal) {
            gb_buf_add(out, text + item.start + 1, item.end - item.start - 2);
            continue;
        }
        const char *secret = item.secret ? gb_policy_secret(call->policy, item.name) : NULL;
        int r = secret        ? add_value(call, "secret", secret, strlen(secret), form, out)
                : item.secret ? -EINVAL
                              : add_argument(call, item.name, form, out);
        if (r == -ENOENT && ret_absent)
            *ret_absent = text + item.start;
        if (r)
            return r;
        if (secret && ret_secret)
            *ret_secret = true;
    }
    gb_buf_puts(out, text + done);
    return out->failed || gb_buf_truncated(out) ? -ENOMEM : 0;
}

/* --- JSON --- */

static json_t *fill_string(struct tool_call *call, const char *text, bool *ret_secret, bool *ret_absent)
{
    struct gb_template_item item;
    size_t at = 0;
    AUTO_BUF out = {.max = 2 * VALUE_MOST};
    if (gb_template_next(text, &at, &item) && !item.secret && !item.literal &&
        gb_template_is_whole(text, &item)) {
        json_t *value = json_object_get(call->arguments, item.name);
        *ret_absent = !value;
        return json_incref(value);
    }
    /* What is put into a text inside of JSON may have line ends: the encoder takes care of them. */
    at = 0;
    size_t done = 0;
    while (gb_template_next(text, &at, &item)) {
        const json_t *value =
                item.secret || item.literal ? NULL : json_object_get(call->arguments, item.name);
        const char *secret = item.secret && !item.literal ? gb_policy_secret(call->policy, item.name) : NULL;
        gb_buf_add(&out, text + done, item.start - done);
        done = item.end;
        if (item.literal)
            gb_buf_add(&out, text + item.start + 1, item.end - item.start - 2);
        if (secret)
            gb_buf_puts(&out, secret);
        else if (json_is_string(value))
            gb_buf_add(&out, json_string_value(value), json_string_length(value));
        else if (value && add_argument(call, item.name, FILL_TEXT, &out))
            return NULL;
        *ret_secret |= secret != NULL;
    }
    gb_buf_puts(&out, text + done);
    return out.failed || gb_buf_truncated(&out) ? NULL : json_stringn(out.data ? out.data : "", out.len);
}

static json_t *fill(struct tool_call *call, const json_t *value, bool *ret_secret, bool *ret_absent);

/* NOLINTBEGIN(misc-no-recursion): as deep as the configuration, which was bounded when it was read */
static json_t *fill_object(struct tool_call *call, const json_t *object, bool *ret_secret)
{
    AUTO_JSON filled = json_object();
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)object, name, member) {
        bool absent = false;
        json_t *value = fill(call, member, ret_secret, &absent);
        if (!absent && json_object_set_new(filled, name, value))
            return NULL;
    }
    return TAKE_PTR(filled);
}

static json_t *fill_array(struct tool_call *call, const json_t *array, bool *ret_secret)
{
    AUTO_JSON filled = json_array();
    for (size_t i = 0; i < json_array_size(array); i++) {
        bool absent = false;
        json_t *value = fill(call, json_array_get(array, i), ret_secret, &absent);
        if (!absent && json_array_append_new(filled, value))
            return NULL;
    }
    return TAKE_PTR(filled);
}

static json_t *fill(struct tool_call *call, const json_t *value, bool *ret_secret, bool *ret_absent)
{
    if (json_is_object(value))
        return fill_object(call, value, ret_secret);
    if (json_is_array(value))
        return fill_array(call, value, ret_secret);
    if (json_is_string(value))
        return fill_string(call, json_string_value(value), ret_secret, ret_absent);
    return json_incref((json_t *)value);
}

/* NOLINTEND(misc-no-recursion) */

json_t *fill_json(struct tool_call *call, const json_t *value, bool *ret_secret)
{
    bool absent = false;
    json_t *filled = fill(call, value, ret_secret, &absent);
    return absent ? json_null() : filled;
}
