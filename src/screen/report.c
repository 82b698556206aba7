/* The report that the start-up code writes from inside the box. The script has not begun by then, but its
 * text is in it (names that it uses), and whatever comes out of a box is read as if the box had been taken
 * over. */
#include "screen/rules.h"

#include "base/auto.h"
#include "base/text.h"
#include "json/json.h"

#include <limits.h>
#include <string.h>

#define MARK       GB_SCREEN_REPORT
#define MARK_LEN   (sizeof(MARK) - 1)
#define UNREADABLE "screening"

/* What a report says, before any of it counts. */
struct report {
    struct gb_finding found[GB_FINDINGS];
    size_t count;
    bool blocked;
};

static bool take_reason(const json_t *value, char *ret, size_t size)
{
    const char *text = json_string_value(value);
    if (!text || !*text)
        return false;
    size_t len = 0, step;
    while (text[len] && (step = gb_text_utf8_len(text + len, strlen(text + len))) && len + step < size)
        len += step;
    memcpy(ret, text, len);
    ret[len] = '\0';
    gb_text_defuse(ret);
    return true;
}

static bool take_finding(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                         const json_t *value, struct report *r)
{
    const json_t *rule = json_object_get(value, "rule"), *line = json_object_get(value, "line");
    const json_int_t index = json_integer_value(rule), at = json_integer_value(line);
    if (!json_is_integer(rule) || !json_is_integer(line) || json_object_size(value) != 3 ||
        r->count == GB_FINDINGS)
        return false;
    if (index < 0 || (size_t)index >= gb_screen_rule_count(screen) || at < 1 || at > INT_MAX ||
        actions->action[index] == GB_SCREEN_OFF)
        return false;
    const struct gb_screen_rule *known = gb_screen_rule(screen, (size_t)index);
    struct gb_finding *f = &r->found[r->count++];
    *f = (struct gb_finding){.rule = known->name,
                             .hint = known->hint,
                             .line = (unsigned)at,
                             .action = (enum gb_screen_action)actions->action[index]};
    return take_reason(json_object_get(value, "reason"), f->reason, sizeof(f->reason));
}

/* False unless it is exactly what the start-up code writes: the script did not run if and only if a finding
 * blocks. */
static bool read_report(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                        const char *text, size_t len, struct report *r)
{
    AUTO_JSON json = NULL;
    if (gb_json_read(text, len, &json, NULL) < 0 || json_object_size(json) != 2)
        return false;
    const json_t *blocked = json_object_get(json, "blocked"), *findings = json_object_get(json, "findings");
    if (!json_is_boolean(blocked) || !json_is_array(findings))
        return false;
    size_t i;
    json_t *one;
    bool blocks = false;
    json_array_foreach(findings, i, one) {
        if (!take_finding(screen, actions, one, r))
            return false;
        blocks = blocks || r->found[i].action == GB_SCREEN_BLOCK;
    }
    r->blocked = json_is_true(blocked);
    return r->blocked == blocks;
}

static void append(const struct gb_finding *f, struct gb_finding ret[GB_FINDINGS], size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (!strcmp(ret[i].rule, f->rule))
            return;
    if (*count < GB_FINDINGS)
        ret[(*count)++] = *f;
}

static void append_damage(const char *reason, struct gb_finding ret[GB_FINDINGS], size_t *count,
                          bool *ret_blocked)
{
    struct gb_finding f = {.rule = UNREADABLE, .line = 1, .action = GB_SCREEN_BLOCK};
    snprintf(f.reason, sizeof(f.reason), "%s", reason);
    append(&f, ret, count);
    *ret_blocked = true;
}

enum gb_report_state gb_screen_report(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                                      const char *data, size_t len, bool end, size_t *ret_len,
                                      struct gb_finding ret[GB_FINDINGS], size_t *count, bool *ret_blocked)
{
    *ret_len = 0;
    *ret_blocked = false;
    const char *mark = len < MARK_LEN ? NULL : memmem(data, len, MARK, MARK_LEN);
    const char *newline = mark ? memchr(mark, '\n', len - (size_t)(mark - data)) : NULL;
    if (!newline && !end && len < GB_SCREEN_REPORT_MOST)
        return GB_REPORT_OPEN;
    if (!mark && end && len < GB_SCREEN_REPORT_MOST)
        return GB_REPORT_NONE;
    *ret_len = newline ? (size_t)(newline - data) + 1 : len;
    struct report *r = calloc(1, sizeof(*r));
    if (newline && r && *ret_len <= GB_SCREEN_REPORT_MOST &&
        read_report(screen, actions, mark + MARK_LEN, (size_t)(newline - mark) - MARK_LEN, r)) {
        for (size_t i = 0; i < r->count; i++)
            append(&r->found[i], ret, count);
        *ret_blocked = r->blocked;
        if (mark != data)
            append_damage("something was written before the report from inside the box", ret, count,
                          ret_blocked);
    } else { /* not ours, or damaged: nobody knows what has run */
        append_damage("the report from inside the box cannot be read", ret, count, ret_blocked);
    }
    free(r);
    return GB_REPORT_DONE;
}
