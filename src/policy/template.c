#include "policy/template.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SECRET "{secret:"

static size_t name_len(const char *text, const char *more)
{
    size_t len = 0;
    while (isalnum((unsigned char)text[len]) || (text[len] && strchr(more, text[len])))
        len++;
    return len;
}

/* The place that begins at this brace; its length, or 0 if it is none. */
static size_t place_at(const char *brace, struct gb_template_item *ret)
{
    const bool secret = !strncmp(brace, SECRET, strlen(SECRET));
    const size_t lead = secret ? strlen(SECRET) : 1, len = name_len(brace + lead, "_.-");
    *ret = (struct gb_template_item){.secret = secret};
    ret->bad = secret && (!len || len >= GB_TEMPLATE_NAME || brace[lead + len] != '}');
    if (ret->bad)
        return lead + len;
    if (!len || len >= GB_TEMPLATE_NAME || brace[lead + len] != '}')
        return 0;
    memcpy(ret->name, brace + lead, len);
    return lead + len + 1;
}

bool gb_template_next(const char *text, size_t *at, struct gb_template_item *ret)
{
    for (const char *brace = strchr(text + *at, '{'); brace; brace = strchr(brace + 1, '{')) {
        size_t len = brace[1] == '{' ? place_at(brace + 1, ret) : 0;
        const bool literal = len && brace[1 + len] == '}' && !ret->bad;
        len = literal ? len + 2 : place_at(brace, ret);
        if (!len)
            continue;
        ret->literal = literal;
        ret->start = (size_t)(brace - text);
        ret->end = ret->start + len;
        *at = ret->end;
        return true;
    }
    *at += strlen(text + *at);
    return false;
}

bool gb_template_is_whole(const char *text, const struct gb_template_item *item)
{
    return item->start == 0 && !text[item->end];
}

/* --- SQL --- */

/* Behind a quoted thing that begins here; a doubled quote stays inside. */
static size_t skip_quoted(const char *text, size_t at)
{
    const char quote = text[at++];
    while (text[at] && (text[at] != quote || text[at + 1] == quote))
        at += text[at] == quote ? 2 : 1;
    return at + (text[at] != '\0');
}

/* Behind a comment that begins here, or `at`. */
static size_t skip_comment(const char *text, size_t at)
{
    if (text[at] == '-' && text[at + 1] == '-')
        return at + strcspn(text + at, "\n");
    if (text[at] != '/' || text[at + 1] != '*')
        return at;
    const char *end = strstr(text + at + 2, "*/");
    return end ? (size_t)(end - text) + 2 : at + strlen(text + at);
}

bool gb_template_next_sql(const char *text, size_t *at, struct gb_template_item *ret)
{
    size_t i = *at;
    while (text[i]) {
        const size_t behind = skip_comment(text, i);
        if (behind > i) {
            i = behind;
        } else if (strchr("'\"`", text[i])) {
            i = skip_quoted(text, i);
        } else if (text[i] != ':') {
            i++;
        } else if (text[i + 1] == ':') {
            i += 2;
        } else {
            const size_t len = name_len(text + i + 1, "_");
            if (len && len < GB_TEMPLATE_NAME && !isdigit((unsigned char)text[i + 1])) {
                *ret = (struct gb_template_item){.start = i, .end = i + 1 + len};
                memcpy(ret->name, text + i + 1, len);
                *at = ret->end;
                return true;
            }
            i += 1 + len;
        }
    }
    *at = i;
    return false;
}
