#include "schema/run.h"

#include "base/auto.h"

#include <errno.h>
#include <string.h>

/* How often the same mistake is explained: each branch that makes it may say so, but not every way to it. */
#define TOLD_MOST 4

/* What remembering costs in steps: it bounds memory as well. */
#define REMEMBER_STEPS 8

/* What is known of a node and a value is a word: whether it is valid, and how often the reasons were told. If
 * it was also wanted what had been seen, it is the address of that. */
enum { VALID = 1, TOLD = 2 };

struct gb_kept {
    struct gb_kept *next;
    uint64_t bits[];
};

bool gb_eval_stop(struct gb_run *run, const char *why)
{
    if (!run->stop)
        run->stop = why;
    return false;
}

bool gb_eval_spend(struct gb_run *run, uint64_t steps)
{
    run->steps += steps;
    return run->steps <= run->most || gb_eval_stop(run, "it is too large to be checked against this schema");
}

int gb_eval_find(struct gb_run *run, const struct gb_ecma *pattern, const char *text, size_t len)
{
    uint64_t steps = 0;
    if (!run->search)
        run->search = gb_ecma_search_new();
    const int r = run->search ? gb_ecma_find(pattern, run->search, text, len, &steps) : -ENOMEM;
    if (r < 0) {
        gb_eval_stop(run, r == -ENOMEM ? "there is not enough memory"
                                       : "a text in it takes too long to be matched against a pattern");
        return -1;
    }
    return gb_eval_spend(run, steps) ? r : -1;
}

void gb_eval_done(struct gb_run *run)
{
    while (run->kept) {
        struct gb_kept *next = run->kept->next;
        free(run->kept);
        run->kept = next;
    }
    gb_map_done(&run->memory);
    gb_ecma_search_free(run->search);
    json_decref(run->names);
}

static unsigned types_of(const json_t *value)
{
    static const unsigned types[] = {
            [JSON_OBJECT] = GB_TYPE_OBJECT, [JSON_ARRAY] = GB_TYPE_ARRAY,
            [JSON_STRING] = GB_TYPE_STRING, [JSON_INTEGER] = GB_TYPE_NUMBER | GB_TYPE_INTEGER,
            [JSON_REAL] = GB_TYPE_NUMBER,   [JSON_TRUE] = GB_TYPE_BOOLEAN,
            [JSON_FALSE] = GB_TYPE_BOOLEAN, [JSON_NULL] = GB_TYPE_NULL,
    };
    if (json_is_real(value)) {
        const struct gb_decimal number = gb_decimal_of(value);
        return gb_decimal_is_integer(&number) ? GB_TYPE_NUMBER | GB_TYPE_INTEGER : GB_TYPE_NUMBER;
    }
    return types[json_typeof(value)];
}

/* "a string, a number or null" */
static void name_types(unsigned types, char *buf, size_t size)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{GB_TYPE_STRING, "a string"},  {GB_TYPE_INTEGER, "a whole number"},
                 {GB_TYPE_NUMBER, "a number"},  {GB_TYPE_BOOLEAN, "true or false"},
                 {GB_TYPE_OBJECT, "an object"}, {GB_TYPE_ARRAY, "an array"},
                 {GB_TYPE_NULL, "null"}};
    size_t len = 0;
    if (types & GB_TYPE_NUMBER)
        types &= ~(unsigned)GB_TYPE_INTEGER;
    for (size_t i = 0; i < ARRAY_LEN(names) && len < size; i++) {
        if (!(types & names[i].bit))
            continue;
        types &= ~names[i].bit;
        len += (size_t)snprintf(buf + len, size - len, "%s%s",
                                !len    ? ""
                                : types ? ", "
                                        : " or ",
                                names[i].name);
    }
}

static bool check_type(struct gb_run *run, const struct gb_node *node, const json_t *value,
                       const struct gb_place *place)
{
    char wanted[120], shown[GB_VALUE_SHOWN];
    if (!node->types || node->types & types_of(value))
        return true;
    if (!run->report)
        return false;
    name_types(node->types, wanted, sizeof(wanted));
    return gb_explain(run, place, GB_MISS_TYPE, "must be %s; it is %s", wanted,
                      gb_explain_value(value, shown));
}

static bool check_rules(struct gb_run *run, const struct gb_node *node, const json_t *value,
                        const struct gb_place *place, struct gb_seen *seen)
{
    bool good = true;
    (void)seen;
    for (const struct gb_rule *rule = node->rules; rule && (good || run->report); rule = rule->next)
        good &= rule->check(run, rule, value, place) && !run->stop;
    return good;
}

/* Who wants only the verdict has it with the first fault; who wants to hear of faults hears of all. */
static bool look(struct gb_run *run, const struct gb_node *node, const json_t *value,
                 const struct gb_place *place, struct gb_seen *seen)
{
    static bool (*const stages[])(struct gb_run * run, const struct gb_node *node, const json_t *value,
                                  const struct gb_place *place, struct gb_seen *seen) = {
            check_rules, gb_combine, gb_members, gb_items, gb_unevaluated};
    bool good = check_type(run, node, value, place);
    if (!good)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(stages) && (good || run->report); i++)
        good &= stages[i](run, node, value, place, seen);
    return good;
}

static bool look_with_seen(struct gb_run *run, const struct gb_node *node, const json_t *value,
                           const struct gb_place *place, struct gb_seen *seen)
{
    const bool own = (node->unevaluated_properties && json_is_object(value)) ||
                     (node->unevaluated_items && json_is_array(value));
    AUTO_SEEN local = {0};
    if (!own)
        return look(run, node, value, place, seen);
    if (!gb_seen_init(run, &local, value))
        return false;
    const bool good = look(run, node, value, place, &local);
    gb_seen_merge(seen, &local);
    return good;
}

/* --- what was found out before --- */

static uintptr_t second_key(const json_t *value, const struct gb_seen *seen)
{
    return (uintptr_t)value | (seen ? 1 : 0); /* values are aligned */
}

/* What was seen of a value that fits, or NULL: no memory. */
static struct gb_kept *keep(struct gb_run *run, const struct gb_seen *seen)
{
    const size_t words = gb_seen_words(seen);
    struct gb_kept *kept = calloc(1, sizeof(*kept) + words * sizeof(kept->bits[0]));
    if (!kept)
        return NULL;
    for (size_t i = 0; i < words; i++)
        kept->bits[i] = seen->bits ? seen->bits[i] : seen->few;
    kept->next = run->kept;
    run->kept = kept;
    gb_eval_spend(run, words);
    return kept;
}

static void remember(struct gb_run *run, const struct gb_node *node, const json_t *value,
                     const struct gb_seen *seen, bool valid)
{
    const uintptr_t second = second_key(value, seen);
    if (run->stop || gb_explain_is_full(run) || gb_map_get(&run->memory, (uintptr_t)node, second))
        return; /* given up on the way: not a result */
    uintptr_t known = valid ? VALID : run->report ? TOLD : 0;
    if (valid && seen)
        known = (uintptr_t)keep(run, seen) | VALID;
    if ((known == VALID && seen) || gb_map_put(&run->memory, (uintptr_t)node, second, known))
        gb_eval_stop(run, "there is not enough memory");
    gb_eval_spend(run, REMEMBER_STEPS);
}

/* Is the result known, and need it not be explained (again)? */
static bool is_known(const struct gb_run *run, const struct gb_node *node, const json_t *value,
                     struct gb_seen *seen, bool *ret_valid)
{
    struct gb_map_entry *e = gb_map_get(&run->memory, (uintptr_t)node, second_key(value, seen));
    if (!e)
        return false;
    *ret_valid = e->value & VALID;
    if (!*ret_valid && run->report && e->value < (uintptr_t)TOLD_MOST * TOLD) {
        e->value += TOLD;
        return false;
    }
    if (*ret_valid && seen && seen->count) {
        struct gb_kept *kept =
                (struct gb_kept *)(e->value & ~(uintptr_t)VALID); // NOLINT(performance-no-int-to-ptr)
        const struct gb_seen had = {seen->count, seen->bits ? kept->bits : NULL, kept->bits[0]};
        gb_seen_merge(seen, &had);
    }
    return true;
}

/* A node that many edges lead to looks at a value once: without this, references could double the work at
 * each level. What was seen is kept with the verdict, and for itself alone. */
static bool eval_shared(struct gb_run *run, const struct gb_node *node, const json_t *value,
                        const struct gb_place *place, struct gb_seen *seen)
{
    bool good = false;
    AUTO_SEEN own = {0};
    if (is_known(run, node, value, seen, &good))
        return good;
    if (seen && !gb_seen_init(run, &own, value))
        return false;
    good = look_with_seen(run, node, value, place, seen ? &own : NULL);
    remember(run, node, value, seen ? &own : NULL, good);
    if (seen)
        gb_seen_merge(seen, &own);
    return good;
}

bool gb_eval(struct gb_run *run, const struct gb_node *node, const json_t *value,
             const struct gb_place *place, struct gb_seen *seen)
{
    if (run->stop || gb_explain_is_full(run))
        return false;
    if (node->fixed)
        return node->verdict || gb_explain(run, place, GB_MISS_MEMBER, "is not allowed");
    if (!gb_eval_spend(run, 1))
        return false;
    if (run->depth >= GB_RUN_DEPTH_MOST)
        return gb_eval_stop(run, "it is nested too deeply to be checked against this schema");
    run->depth++;
    /* A node that looks at a plain value by itself is quicker done again than looked up. */
    const bool kept = node->shared && (node->height || json_is_array(value) || json_is_object(value));
    const bool good = (kept ? eval_shared : look_with_seen)(run, node, value, place, seen);
    run->depth--;
    return good;
}
