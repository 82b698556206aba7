#include "schema/run.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool gb_explain_is_full(const struct gb_run *run)
{
    return run->report && run->report->count >= GB_SCHEMA_PROBLEMS;
}

/* --- pieces of text --- */

/* Appends what fits; what does not ends in "...". */
static void put(char *buf, size_t size, size_t *len, const char *text)
{
    const int n = snprintf(buf + *len, size - *len, "%s", text);
    *len += (size_t)n;
    if (*len >= size) {
        *len = size - 1;
        memcpy(buf + size - 4, "...", 4);
    }
}

static bool is_plain_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$";
    return *name && strchr(letters, *name) &&
           !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$0123456789-")];
}

#define STEP_SHOWN  64  /* of a name */
#define PLACE_STEPS 256 /* more levels than values have */

static void write_step(const struct gb_place *p, char *buf, size_t size)
{
    if (!p->name)
        snprintf(buf, size, "[%zu]", p->index);
    else if (is_plain_name(p->name))
        snprintf(buf, size, ".%.*s", STEP_SHOWN, p->name);
    else
        snprintf(buf, size, "[\"%.*s\"]", STEP_SHOWN, p->name);
}

/* "root.member[3]". Where there is not enough room, the end is what matters. */
static void write_path(const char *root, const struct gb_place *place, char *buf, size_t size)
{
    const struct gb_place *steps[PLACE_STEPS];
    char text[STEP_SHOWN + 8];
    size_t count = 0, shown = 0, len = 0, needed = strlen(root) + sizeof("...");
    for (; place && place->up && count < PLACE_STEPS; place = place->up)
        steps[count++] = place;
    for (; shown < count; shown++) {
        write_step(steps[shown], text, sizeof(text));
        needed += strlen(text);
        if (needed > size)
            break;
    }
    put(buf, size, &len, root);
    put(buf, size, &len, shown < count ? "..." : "");
    while (shown) {
        write_step(steps[--shown], text, sizeof(text));
        put(buf, size, &len, text);
    }
    gb_text_defuse(buf);
}

/* As much of a string as is worth it, in quotes. */
static void write_string(const char *text, size_t len, char *buf, size_t size)
{
    char part[72];
    size_t n = len < sizeof(part) ? len : sizeof(part) - 8;
    while (n < len && n && (text[n] & 0xC0) == 0x80)
        n--; /* not within a character */
    memcpy(part, text, n);
    for (size_t i = 0; i < n; i++)
        if (!part[i])
            part[i] = ' ';
    part[n] = '\0';
    snprintf(buf, size, "\"%s%s\"", part, n < len ? "..." : "");
}

static void write_scalar(const json_t *value, char *buf, size_t size)
{
    if (json_is_string(value)) {
        write_string(json_string_value(value), json_string_length(value), buf, size);
        return;
    }
    const struct gb_decimal number = json_is_real(value) ? gb_decimal_of(value) : (struct gb_decimal){0};
    size_t digits = 0;
    for (uint64_t d = number.digits; d; d /= 10)
        digits++;
    const size_t n =
            json_dumpb(value, buf, size - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits ? digits : 1));
    buf[n < size ? n : size - 1] = '\0';
}

/* As JSON, up to where the room ends: the rest of the value is not looked at. */
/* NOLINTNEXTLINE(misc-no-recursion): each level takes room */
static void write_value(const json_t *value, char *buf, size_t size, size_t *len)
{
    char text[GB_VALUE_SHOWN];
    size_t i = 0;
    const char *name;
    json_t *item;
    if (!json_is_array(value) && !json_is_object(value)) {
        write_scalar(value, text, sizeof(text));
        put(buf, size, len, text);
        return;
    }
    put(buf, size, len, json_is_array(value) ? "[" : "{");
    json_array_foreach((json_t *)value, i, item) {
        if (*len + 1 >= size)
            return;
        put(buf, size, len, i ? "," : "");
        write_value(item, buf, size, len);
    }
    json_object_foreach((json_t *)value, name, item) {
        if (*len + 1 >= size)
            return;
        put(buf, size, len, i++ ? "," : "");
        write_string(name, strlen(name), text, sizeof(text));
        put(buf, size, len, text);
        put(buf, size, len, ":");
        write_value(item, buf, size, len);
    }
    put(buf, size, len, json_is_array(value) ? "]" : "}");
}

const char *gb_explain_value(const json_t *value, char buf[static GB_VALUE_SHOWN])
{
    size_t len = 0;
    buf[0] = '\0';
    write_value(value, buf, GB_VALUE_SHOWN, &len);
    gb_text_defuse(buf);
    return buf;
}

void gb_explain_values(const json_t *array, char *buf, size_t size)
{
    size_t len = 0, i;
    json_t *item;
    buf[0] = '\0';
    json_array_foreach((json_t *)array, i, item) {
        char shown[GB_VALUE_SHOWN];
        if (len + 4 >= size)
            return;
        put(buf, size, &len, i ? ", " : "");
        put(buf, size, &len, gb_explain_value(item, shown));
    }
}

/* --- what a node names --- */

#define VISITS_MOST 200
#define NAMES_MOST  64

struct names {
    json_t *set;
    unsigned visits;
};

/* Everywhere where a member can be named for the same value. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as graph.c allows */
static void collect_names(const struct gb_node *node, struct names *n)
{
    const char *name;
    json_t *value;
    if (!node || n->visits++ > VISITS_MOST)
        return;
    json_object_foreach(node->names, name, value) {
        if (json_object_size(n->set) >= NAMES_MOST)
            return;
        const struct gb_node *member = node->properties.list[json_integer_value(value)];
        if (!member->fixed || member->verdict)
            json_object_set_new(n->set, name, json_true());
    }
    for (const struct gb_named_node *p = node->patterns; p; p = p->next) {
        char text[96];
        snprintf(text, sizeof(text), "names like %.80s", p->name);
        json_object_set_new(n->set, text, json_true());
    }
    for (const struct gb_edge *e = node->edges; e; e = e->next)
        if (e->same_value && e->to != node->not_)
            collect_names(e->to, n);
}

/* --- problems --- */

#define EXPLAIN_STEPS 16 /* what writing a text costs in steps */

/* A mistake further inside says less against a branch than one at its own value. */
static unsigned weigh(const struct gb_report *report, const struct gb_place *place, unsigned miss)
{
    if (place == report->base)
        return miss;
    if (miss == GB_MISS_VALUE && place->up == report->base)
        return miss;
    return miss > GB_MISS_DETAIL ? 2 * GB_MISS_DETAIL : GB_MISS_DETAIL;
}

bool gb_explain(struct gb_run *run, const struct gb_place *place, unsigned miss, const char *fmt, ...)
{
    struct gb_report *r = run->report;
    if (!r || r->count >= GB_SCHEMA_PROBLEMS)
        return false;
    gb_eval_spend(run, EXPLAIN_STEPS);
    struct gb_schema_problem *p = &r->list[r->count++];
    r->miss += weigh(r, place, miss);
    write_path(run->root, place, p->path, sizeof(p->path));
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(p->text, sizeof(p->text), fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(p->text))
        memcpy(p->text + sizeof(p->text) - 4, "...", 4);
    gb_text_defuse(p->text);
    for (size_t i = 0; i + 1 < r->count; i++)
        if (!strcmp(r->list[i].path, p->path) && !strcmp(r->list[i].text, p->text)) {
            r->count--; /* two ways to the same mistake */
            break;
        }
    return false;
}

bool gb_explain_adopt(struct gb_run *run, const struct gb_report *report)
{
    struct gb_report *r = run->report;
    for (size_t i = 0; r && i < report->count && r->count < GB_SCHEMA_PROBLEMS; i++)
        r->list[r->count++] = report->list[i];
    if (r)
        r->miss += report->base == r->base ? report->miss : GB_MISS_DETAIL;
    return false;
}

/* Behind the last of these words is what the value is; the same for all branches. */
static char *find_actual(char *text)
{
    char *found = NULL;
    for (char *p = text; (p = strstr(p, "; it is ")); p++)
        found = p;
    return found;
}

bool gb_explain_join(struct gb_run *run, const struct gb_report *reports, size_t count,
                     const struct gb_report *best)
{
    static const char must_be[] = "must be ";
    struct gb_schema_problem all = best->list[0], one;
    char actual[90] = "";
    size_t len = 0;
    all.text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        one = reports[i].list[0];
        if (reports[i].count != 1 || strcmp(one.path, all.path) != 0)
            continue;
        char *end = find_actual(one.text);
        if (end) {
            snprintf(actual, sizeof(actual), "%s", end);
            *end = '\0';
        }
        const bool again = len && !strncmp(one.text, must_be, strlen(must_be));
        const char *text = one.text + (again ? strlen(must_be) : 0);
        if (strstr(all.text, text) || len + 8 >= sizeof(all.text) - sizeof(actual))
            continue;
        put(all.text, sizeof(all.text) - sizeof(actual), &len, len ? ", or " : "");
        put(all.text, sizeof(all.text) - sizeof(actual), &len, text);
    }
    snprintf(all.text + len, sizeof(all.text) - len, "%s", actual);
    gb_text_defuse(all.text); /* a character may have been cut */
    const struct gb_report joined = {.list = {all}, .count = 1, .miss = best->miss, .base = best->base};
    return gb_explain_adopt(run, &joined);
}

bool gb_explain_member(struct gb_run *run, const struct gb_node *node, const char *name,
                       const struct gb_place *place)
{
    struct names n = {0};
    char allowed[160] = "";
    size_t len = 0;
    const char *other;
    json_t *value;
    if (!run->report)
        return false;
    n.set = json_object();
    collect_names(node, &n);
    const bool elsewhere = json_object_get(n.set, name); /* in a branch that the rest does not fit */
    json_object_foreach(n.set, other, value) {
        if (len + 4 >= sizeof(allowed))
            break;
        put(allowed, sizeof(allowed), &len, len ? ", " : "");
        put(allowed, sizeof(allowed), &len, other);
    }
    json_decref(n.set);
    if (elsewhere)
        return gb_explain(run, place, GB_MISS_MEMBER,
                          "has a member '%.60s' that is allowed only in a form which the value does not fit",
                          name);
    return gb_explain(run, place, GB_MISS_MEMBER, "has a member '%.60s' that is not allowed; allowed: %s",
                      name, *allowed ? allowed : "none");
}
