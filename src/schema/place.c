/* The keywords that apply subschemas: they make edges. */
#include "schema/tree.h"

#include <string.h>

enum { DEEPER = false, SAME_VALUE = true };

static int link_node(struct gb_schema *s, struct gb_node *from, struct gb_node *to, bool same_value,
                     struct gb_err *err)
{
    struct gb_edge *edge = gb_arena_new(s, sizeof(*edge));
    if (!edge)
        return gb_arena_error(err);
    *edge = (struct gb_edge){to, same_value, from->edges};
    from->edges = edge;
    return 0;
}

static int one(struct gb_schema *s, struct gb_node *node, const json_t *arg, const char *where,
               bool same_value, struct gb_node **ret, struct gb_err *err)
{
    if (!where)
        return gb_arena_error(err);
    const int r = gb_compile_want(s, arg, node->resource, node->scope, where, ret, err);
    return r ? r : link_node(s, node, *ret, same_value, err);
}

static int list(struct gb_schema *s, struct gb_node *node, const json_t *arg, const char *where,
                bool same_value, struct gb_nodes *ret, struct gb_err *err)
{
    size_t i;
    json_t *item;
    int r = 0;
    ret->list = gb_arena_new(s, (json_array_size(arg) + 1) * sizeof(struct gb_node *));
    if (!ret->list)
        return gb_arena_error(err);
    json_array_foreach((json_t *)arg, i, item) {
        r = one(s, node, item, gb_arena_print(s, "%s/%zu", where, i), same_value, &ret->list[i], err);
        if (r)
            return r;
    }
    ret->count = json_array_size(arg);
    return 0;
}

static int named(struct gb_schema *s, struct gb_node *node, const char *name, const json_t *arg,
                 const char *where, bool same_value, struct gb_named_node **ret, struct gb_err *err)
{
    struct gb_named_node *new = gb_arena_new(s, sizeof(*new));
    if (!new)
        return gb_arena_error(err);
    new->name = name;
    const int r = one(s, node, arg, gb_arena_below(s, where, name), same_value, &new->node, err);
    if (r)
        return r;
    new->next = *ret;
    *ret = new;
    return 0;
}

/* --- references --- */

GB_COMPILER(gb_place_ref)
{
    struct gb_target t;
    (void)keyword;
    int r = gb_resource_find(s, node->resource, json_string_value(arg), where, &t, err);
    if (!r)
        r = gb_compile_want(s, t.json, t.resource, node->scope, t.where, &node->ref, err);
    return r ? r : link_node(s, node, node->ref, SAME_VALUE, err);
}

/* Leads to the outermost schema that has this dynamic anchor, if it leads to a dynamic anchor at all. */
GB_COMPILER(gb_place_dynamic_ref)
{
    struct gb_target t;
    (void)keyword;
    int r = gb_resource_find(s, node->resource, json_string_value(arg), where, &t, err);
    if (r)
        return r;
    uint32_t resource = t.resource;
    const struct gb_anchor *outer =
            t.anchor && t.anchor->dynamic ? gb_scope_find(s, node->scope, t.anchor->name, &resource) : NULL;
    r = outer ? gb_compile_want(s, outer->json, resource, node->scope, outer->where, &node->dynamic_ref, err)
              : gb_compile_want(s, t.json, t.resource, node->scope, t.where, &node->dynamic_ref, err);
    return r ? r : link_node(s, node, node->dynamic_ref, SAME_VALUE, err);
}

/* Compiled, whether used or not, so that their mistakes are seen. No edge: nothing is applied. */
GB_COMPILER(gb_place_definition)
{
    struct gb_node *ignored;
    (void)keyword;
    return gb_compile_want(s, arg, node->resource, node->scope, where, &ignored, err);
}

GB_COMPILER(gb_place_definitions)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)arg, name, value) {
        const char *below = gb_arena_below(s, where, name);
        const int r = below ? gb_place_definition(s, node, keyword, value, below, err) : gb_arena_error(err);
        if (r)
            return r;
    }
    return 0;
}

/* --- the same value --- */

#define ONE(function, member, same_value)                                                                    \
    GB_COMPILER(function)                                                                                    \
    {                                                                                                        \
        (void)keyword;                                                                                       \
        return one(s, node, arg, where, same_value, &node->member, err);                                     \
    }
#define LIST(function, member, same_value)                                                                   \
    GB_COMPILER(function)                                                                                    \
    {                                                                                                        \
        (void)keyword;                                                                                       \
        return list(s, node, arg, where, same_value, &node->member, err);                                    \
    }

LIST(gb_place_all_of, all_of, SAME_VALUE)
LIST(gb_place_any_of, any_of, SAME_VALUE)
LIST(gb_place_one_of, one_of, SAME_VALUE)
ONE(gb_place_not, not_, SAME_VALUE)
ONE(gb_place_if, if_, SAME_VALUE)
ONE(gb_place_then, then_, SAME_VALUE)
ONE(gb_place_else, else_, SAME_VALUE)

GB_COMPILER(gb_place_dependent_schemas)
{
    const char *name;
    json_t *value;
    (void)keyword;
    json_object_foreach((json_t *)arg, name, value) {
        const int r = named(s, node, name, value, where, SAME_VALUE, &node->dependents, err);
        if (r)
            return r;
    }
    return 0;
}

GB_COMPILER(gb_place_dependencies)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)arg, name, value) {
        const int r = json_is_array(value)
                              ? 0
                              : named(s, node, name, value, where, SAME_VALUE, &node->dependents, err);
        if (r)
            return r;
    }
    return gb_rule_dependent(s, node, keyword, arg, where, err);
}

/* --- members --- */

GB_COMPILER(gb_place_properties)
{
    const char *name;
    json_t *value;
    size_t count = 0;
    (void)keyword;
    node->names = json_object();
    node->properties.list = gb_arena_new(s, (json_object_size(arg) + 1) * sizeof(struct gb_node *));
    if (!node->names || !node->properties.list)
        return gb_arena_error(err);
    json_object_foreach((json_t *)arg, name, value) {
        const int r = one(s, node, value, gb_arena_below(s, where, name), DEEPER,
                          &node->properties.list[count], err);
        if (r)
            return r;
        if (json_object_set_new(node->names, name, json_integer((json_int_t)count++)))
            return gb_arena_error(err);
    }
    node->properties.count = count;
    return 0;
}

GB_COMPILER(gb_place_pattern_properties)
{
    const char *name;
    json_t *value;
    (void)keyword;
    json_object_foreach((json_t *)arg, name, value) {
        int r = named(s, node, name, value, where, DEEPER, &node->patterns, err);
        if (r)
            return r;
        r = gb_ecma_new(name, strlen(name), &node->patterns->pattern, err);
        if (r) {
            gb_err_wrap(err, "at %.160s: the pattern '%.80s'", where, name);
            return r;
        }
    }
    return 0;
}

ONE(gb_place_additional_properties, additional, DEEPER)
ONE(gb_place_property_names, property_names, DEEPER)
ONE(gb_place_unevaluated_properties, unevaluated_properties, DEEPER)

/* --- items --- */

LIST(gb_place_prefix_items, prefix, DEEPER)
ONE(gb_place_contains, contains, DEEPER)
ONE(gb_place_unevaluated_items, unevaluated_items, DEEPER)

GB_COMPILER(gb_place_items)
{
    return json_is_array(arg) ? gb_place_prefix_items(s, node, keyword, arg, where, err)
                              : one(s, node, arg, where, DEEPER, &node->items, err);
}

/* Says something only about what a list of items does not name. */
GB_COMPILER(gb_place_additional_items)
{
    (void)keyword;
    if (json_is_array(json_object_get(node->json, "items")))
        return one(s, node, arg, where, DEEPER, &node->items, err);
    return gb_place_definition(s, node, keyword, arg, where, err);
}

GB_COMPILER(gb_place_max_contains)
{
    const struct gb_decimal d = gb_decimal_of(arg);
    (void)s, (void)keyword, (void)where, (void)err;
    gb_decimal_is_count(&d, &node->max_contains);
    return 0;
}

GB_COMPILER(gb_place_min_contains)
{
    const struct gb_decimal d = gb_decimal_of(arg);
    (void)s, (void)keyword, (void)where, (void)err;
    gb_decimal_is_count(&d, &node->min_contains);
    return 0;
}
