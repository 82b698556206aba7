/* The keywords that assert something about the value itself. */
#include "schema/run.h"

#include "base/auto.h"
#include "schema/format.h"

#include <errno.h>
#include <string.h>

static int add(struct gb_schema *s, struct gb_node *node, const struct gb_rule *rule, struct gb_err *err)
{
    struct gb_rule *new = gb_arena_new(s, sizeof(*new));
    if (!new)
        return gb_arena_error(err);
    *new = *rule;
    new->next = node->rules;
    node->rules = new;
    return 0;
}

/* --- type: not a rule but a set of bits, for it is looked at first --- */

GB_COMPILER(gb_rule_type)
{
    static const struct {
        const char *name;
        unsigned bit;
    } types[] = {{"string", GB_TYPE_STRING}, {"number", GB_TYPE_NUMBER}, {"integer", GB_TYPE_INTEGER},
                 {"object", GB_TYPE_OBJECT}, {"array", GB_TYPE_ARRAY},   {"boolean", GB_TYPE_BOOLEAN},
                 {"null", GB_TYPE_NULL}};
    const size_t count = json_is_array(arg) ? json_array_size(arg) : 1;
    (void)s, (void)keyword;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_is_array(arg) ? json_array_get(arg, i) : arg);
        unsigned bit = 0;
        for (size_t j = 0; j < ARRAY_LEN(types); j++)
            if (!strcmp(types[j].name, name))
                bit = types[j].bit;
        if (!bit)
            return gb_keyword_refuse(err, where,
                                     "there is no type '%.40s'; there are string, number, integer, object, "
                                     "array, boolean and null",
                                     name);
        if (node->types & bit)
            return gb_keyword_refuse(err, where, "names '%s' twice", name);
        node->types |= bit;
    }
    return 0;
}

/* --- enum, const --- */

static bool check_enum(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                       const struct gb_place *place)
{
    char allowed[160], shown[GB_VALUE_SHOWN];
    uint64_t steps = 0;
    const bool has = gb_same_set_has(rule->set, value, &steps);
    if (!gb_eval_spend(run, steps))
        return false;
    if (has || !run->report)
        return has;
    gb_explain_values(rule->arg, allowed, sizeof(allowed));
    return gb_explain(run, place, GB_MISS_VALUE, "must be one of %s; it is %.70s", allowed,
                      gb_explain_value(value, shown));
}

GB_COMPILER(gb_rule_enum)
{
    struct gb_rule rule = {.check = check_enum, .keyword = keyword, .arg = arg};
    (void)where;
    rule.set = gb_same_set_new(&s->key, arg);
    if (!rule.set)
        return gb_arena_error(err);
    const int r = add(s, node, &rule, err);
    if (r)
        gb_same_set_free(rule.set);
    return r;
}

static bool check_const(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                        const struct gb_place *place)
{
    char wanted[GB_VALUE_SHOWN], shown[GB_VALUE_SHOWN];
    if (gb_same_equal(rule->arg, value))
        return true;
    if (!run->report)
        return false;
    return gb_explain(run, place, GB_MISS_VALUE, "must be %s; it is %s", gb_explain_value(rule->arg, wanted),
                      gb_explain_value(value, shown));
}

GB_COMPILER(gb_rule_const)
{
    const struct gb_rule rule = {.check = check_const, .keyword = keyword, .arg = arg};
    (void)where;
    return add(s, node, &rule, err);
}

/* --- numbers --- */

static const struct bound {
    const char *keyword, *text;
    int least, most; /* of the comparison with the keyword's number */
} bounds[] = {
        {"maximum", "at most", -1, 0},
        {"exclusiveMaximum", "less than", -1, -1},
        {"minimum", "at least", 0, 1},
        {"exclusiveMinimum", "more than", 1, 1},
};

static bool refuse_number(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                          const struct gb_place *place, const char *what)
{
    char wanted[GB_VALUE_SHOWN], shown[GB_VALUE_SHOWN];
    if (!run->report)
        return false;
    return gb_explain(run, place, GB_MISS_DETAIL, "must be %s %s; it is %s", what,
                      gb_explain_value(rule->arg, wanted), gb_explain_value(value, shown));
}

static bool check_bound(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                        const struct gb_place *place)
{
    if (!json_is_number(value))
        return true;
    const struct bound *b = &bounds[rule->count];
    const struct gb_decimal number = gb_decimal_of(value);
    const int order = gb_decimal_compare(&number, &rule->number);
    return (order >= b->least && order <= b->most) || refuse_number(run, rule, value, place, b->text);
}

static bool check_multiple(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                           const struct gb_place *place)
{
    if (!json_is_number(value))
        return true;
    const struct gb_decimal number = gb_decimal_of(value);
    return gb_decimal_is_multiple(&number, &rule->number) ||
           refuse_number(run, rule, value, place, "a multiple of");
}

GB_COMPILER(gb_rule_number)
{
    struct gb_rule rule = {
            .check = check_multiple, .keyword = keyword, .arg = arg, .number = gb_decimal_of(arg)};
    (void)where;
    for (size_t i = 0; i < ARRAY_LEN(bounds); i++)
        if (!strcmp(bounds[i].keyword, keyword)) {
            rule.check = check_bound;
            rule.count = i;
        }
    return add(s, node, &rule, err);
}

/* --- sizes --- */

static size_t count_characters(const json_t *value)
{
    const char *text = json_string_value(value);
    const size_t len = json_string_length(value);
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += (text[i] & 0xC0) != 0x80;
    return count;
}

static const struct size {
    const char *keyword, *what, *noun;
    json_type type;
    bool most;
    size_t (*of)(const json_t *value);
} sizes[] = {
        {"maxLength", "at most", "character", JSON_STRING, true, count_characters},
        {"minLength", "at least", "character", JSON_STRING, false, count_characters},
        {"maxItems", "at most", "item", JSON_ARRAY, true, json_array_size},
        {"minItems", "at least", "item", JSON_ARRAY, false, json_array_size},
        {"maxProperties", "at most", "member", JSON_OBJECT, true, json_object_size},
        {"minProperties", "at least", "member", JSON_OBJECT, false, json_object_size},
};

static bool check_size(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                       const struct gb_place *place)
{
    const struct size *size = NULL;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        if (!strcmp(sizes[i].keyword, rule->keyword))
            size = &sizes[i];
    if (!size || json_typeof(value) != size->type)
        return true;
    const size_t n = size->of(value);
    if (json_is_string(value) && !gb_eval_spend(run, json_string_length(value) / 64))
        return false;
    if (size->most ? n <= rule->count : n >= rule->count)
        return true;
    return gb_explain(run, place, GB_MISS_DETAIL, "must have %s %zu %s%s; it has %zu", size->what,
                      rule->count, size->noun, rule->count == 1 ? "" : "s", n);
}

GB_COMPILER(gb_rule_count)
{
    struct gb_rule rule = {.check = check_size, .keyword = keyword, .arg = arg};
    const struct gb_decimal number = gb_decimal_of(arg);
    (void)where;
    gb_decimal_is_count(&number, &rule.count);
    return add(s, node, &rule, err);
}

static bool check_unique(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                         const struct gb_place *place)
{
    uint64_t steps = 0;
    size_t first = 0, second = 0;
    (void)rule;
    if (!json_is_array(value))
        return true;
    const int r = gb_same_find_pair(&run->schema->key, value, &steps, &first, &second);
    if (r < 0)
        return gb_eval_stop(run, "there is not enough memory");
    if (!gb_eval_spend(run, steps))
        return false;
    return !r || gb_explain(run, place, GB_MISS_DETAIL,
                            "must not have the same item twice; [%zu] and [%zu] are equal", first, second);
}

GB_COMPILER(gb_rule_unique)
{
    const struct gb_rule rule = {.check = check_unique, .keyword = keyword, .arg = arg};
    (void)where;
    return json_is_true(arg) ? add(s, node, &rule, err) : 0;
}

/* --- pattern, format --- */

static bool check_pattern(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                          const struct gb_place *place)
{
    char shown[GB_VALUE_SHOWN];
    if (!json_is_string(value))
        return true;
    const int r = gb_eval_find(run, rule->pattern, json_string_value(value), json_string_length(value));
    if (r > 0 || !run->report)
        return r > 0;
    return gb_explain(run, place, GB_MISS_DETAIL, "must match the pattern %.120s; it is %s",
                      json_string_value(rule->arg), gb_explain_value(value, shown));
}

GB_COMPILER(gb_rule_pattern)
{
    struct gb_rule rule = {.check = check_pattern, .keyword = keyword, .arg = arg};
    int r = gb_ecma_new(json_string_value(arg), json_string_length(arg), &rule.pattern, err);
    if (r) {
        gb_err_wrap(err, "at %.160s", where);
        return r;
    }
    r = add(s, node, &rule, err);
    if (r)
        gb_ecma_free(rule.pattern);
    return r;
}

static bool check_format(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                         const struct gb_place *place)
{
    char shown[GB_VALUE_SHOWN];
    if (!json_is_string(value))
        return true;
    if (!gb_eval_spend(run, json_string_length(value) / 64))
        return false;
    if (gb_format_check(rule->format, json_string_value(value), json_string_length(value)))
        return true;
    return run->report && gb_explain(run, place, GB_MISS_DETAIL, "must be %s; it is %s",
                                     gb_format_what(rule->format), gb_explain_value(value, shown));
}

GB_COMPILER(gb_rule_format)
{
    const bool asserted =
            s->options.assert_format || s->resources[node->resource].vocabulary & GB_VOCAB_FORMAT_ASSERTION;
    const struct gb_rule rule = {.check = check_format,
                                 .keyword = keyword,
                                 .arg = arg,
                                 .format = gb_format_find(json_string_value(arg))};
    if (!asserted || !rule.format)
        return 0;
    if (!gb_format_can_check(rule.format))
        return gb_keyword_refuse(err, where, "the format '%s' cannot be checked here",
                                 json_string_value(arg));
    return add(s, node, &rule, err);
}

/* --- members that must be there --- */

static bool check_required(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                           const struct gb_place *place)
{
    char missing[160] = "";
    size_t count = 0, len = 0, i;
    json_t *name;
    if (!json_is_object(value))
        return true;
    if (!gb_eval_spend(run, json_array_size(rule->arg)))
        return false;
    json_array_foreach((json_t *)rule->arg, i, name) {
        if (json_object_get(value, json_string_value(name)))
            continue;
        if (!run->report)
            return false;
        if (len < sizeof(missing))
            len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%s'%.60s'", count ? ", " : "",
                                    json_string_value(name));
        count++;
    }
    if (!count)
        return true;
    return gb_explain(run, place, GB_MISS_MEMBER, count > 1 ? "needs the members %s" : "needs a member %s",
                      missing);
}

GB_COMPILER(gb_rule_required)
{
    const struct gb_rule rule = {.check = check_required, .keyword = keyword, .arg = arg};
    (void)where;
    return add(s, node, &rule, err);
}

static bool check_dependent(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                            const struct gb_place *place)
{
    const char *name;
    json_t *needed, *other;
    size_t i;
    bool good = true;
    if (!json_is_object(value))
        return true;
    json_object_foreach((json_t *)rule->arg, name, needed) {
        if (!gb_eval_spend(run, 1 + json_array_size(needed)))
            return false;
        if (!json_object_get(value, name))
            continue;
        json_array_foreach(needed, i, other)
            if (!json_object_get(value, json_string_value(other)))
                good = gb_explain(run, place, GB_MISS_MEMBER,
                                  "needs a member '%.60s', because it has a member '%.60s'",
                                  json_string_value(other), name);
    }
    return good;
}

GB_COMPILER(gb_rule_dependent)
{
    const struct gb_rule rule = {.check = check_dependent, .keyword = keyword, .arg = arg};
    (void)where;
    return add(s, node, &rule, err);
}
