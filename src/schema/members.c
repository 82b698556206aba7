#include "schema/run.h"

#include "base/auto.h"

#include <string.h>

/* Names are looked at as values. They live until the end of the run, for results are remembered by address.
 */
static bool check_name(struct gb_run *run, const struct gb_node *node, const char *name,
                       const struct gb_place *place)
{
    struct gb_report *const outer = run->report;
    struct gb_report own = {.base = place};
    json_t *value = json_string(name);
    if (!run->names)
        run->names = json_array();
    if (json_array_append_new(run->names, value))
        return gb_eval_stop(run, "there is not enough memory");
    run->report = outer ? &own : NULL;
    const bool good = gb_eval(run, node->property_names, value, place, NULL);
    run->report = outer;
    for (size_t i = 0; i < own.count; i++)
        gb_explain(run, place, GB_MISS_MEMBER, "the name of the member '%.60s' %s", name, own.list[i].text);
    return good;
}

static bool check_member(struct gb_run *run, const struct gb_node *node, const char *name,
                         const json_t *member, const struct gb_place *place, bool *ret_seen)
{
    const struct gb_place below = {.up = place, .name = name};
    const json_t *index = json_object_get(node->names, name);
    bool good = true, named = index;
    if (index)
        good = gb_eval(run, node->properties.list[json_integer_value(index)], member, &below, NULL);
    for (const struct gb_named_node *p = node->patterns; p && (good || run->report); p = p->next) {
        if (gb_eval_find(run, p->pattern, name, strlen(name)) <= 0)
            continue;
        named = true;
        good &= gb_eval(run, p->node, member, &below, NULL);
    }
    *ret_seen = named || node->additional;
    if (named || !node->additional || run->stop)
        return good && !run->stop;
    if (node->additional->fixed && !node->additional->verdict)
        return gb_explain_member(run, node, name, place);
    return gb_eval(run, node->additional, member, &below, NULL);
}

bool gb_members(struct gb_run *run, const struct gb_node *node, const json_t *value,
                const struct gb_place *place, struct gb_seen *seen)
{
    bool good = true;
    size_t at = 0;
    const char *name;
    json_t *member;
    if (!json_is_object(value) ||
        (!node->names && !node->patterns && !node->additional && !node->property_names))
        return true;
    json_object_foreach((json_t *)value, name, member) {
        bool looked_at = false;
        if (!gb_eval_spend(run, 1) || !(good || run->report))
            return false;
        if (node->property_names)
            good &= check_name(run, node, name, place);
        if (good || run->report)
            good &= check_member(run, node, name, member, place, &looked_at);
        if (looked_at)
            gb_seen_add(seen, at);
        at++;
    }
    return good;
}

/* --- items --- */

static bool contains(struct gb_run *run, const struct gb_node *node, const json_t *value,
                     const struct gb_place *place, struct gb_seen *seen)
{
    struct gb_report *const outer = run->report;
    size_t found = 0, i;
    json_t *item;
    if (!node->contains)
        return true;
    run->report = NULL;
    json_array_foreach((json_t *)value, i, item) {
        if (!seen && found >= node->min_contains &&
            (node->max_contains == SIZE_MAX || found > node->max_contains))
            break;
        if (!gb_eval_spend(run, 1))
            break;
        if (!gb_eval(run, node->contains, item, place, NULL))
            continue;
        found++;
        gb_seen_add(seen, i);
    }
    run->report = outer;
    if (run->stop)
        return false;
    if (found >= node->min_contains && found <= node->max_contains)
        return true;
    if (!run->report)
        return false;
    char shown[GB_VALUE_SHOWN];
    if (found < node->min_contains)
        return gb_explain(run, place, GB_MISS_DETAIL, "must have at least %zu item%s that fit %s; it has %zu",
                          node->min_contains, node->min_contains == 1 ? "" : "s",
                          gb_explain_value(node->contains->json, shown), found);
    return gb_explain(run, place, GB_MISS_DETAIL, "must have at most %zu item%s that fit %s; it has more",
                      node->max_contains, node->max_contains == 1 ? "" : "s",
                      gb_explain_value(node->contains->json, shown));
}

bool gb_items(struct gb_run *run, const struct gb_node *node, const json_t *value,
              const struct gb_place *place, struct gb_seen *seen)
{
    bool good = true;
    size_t i;
    json_t *item;
    if (!json_is_array(value))
        return true;
    if (node->prefix.count || node->items)
        json_array_foreach((json_t *)value, i, item) {
            const struct gb_place below = {.up = place, .index = i};
            const struct gb_node *next = i < node->prefix.count ? node->prefix.list[i] : node->items;
            if (!next)
                break;
            if (!gb_eval_spend(run, 1) || !(good || run->report))
                return false;
            if (next == node->items && next->fixed && !next->verdict && run->report) {
                gb_explain(run, place, GB_MISS_DETAIL, "must have at most %zu item%s; it has %zu",
                           node->prefix.count, node->prefix.count == 1 ? "" : "s", json_array_size(value));
                good = false;
                break;
            }
            good &= gb_eval(run, next, item, &below, NULL);
            gb_seen_add(seen, i);
        }
    return good ? contains(run, node, value, place, seen) : false;
}

/* --- what nobody looked at --- */

static bool unevaluated_items(struct gb_run *run, const struct gb_node *node, const json_t *value,
                              const struct gb_place *place, const struct gb_seen *seen)
{
    bool good = true;
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)value, i, item) {
        const struct gb_place below = {.up = place, .index = i};
        if (!gb_eval_spend(run, 1) || !(good || run->report))
            return false;
        if (!gb_seen_has(seen, i))
            good &= gb_eval(run, node->unevaluated_items, item, &below, NULL);
    }
    return good;
}

static bool unevaluated_members(struct gb_run *run, const struct gb_node *node, const json_t *value,
                                const struct gb_place *place, const struct gb_seen *seen)
{
    const struct gb_node *next = node->unevaluated_properties;
    bool good = true;
    size_t at = 0;
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member) {
        const struct gb_place below = {.up = place, .name = name};
        if (!gb_eval_spend(run, 1) || !(good || run->report))
            return false;
        if (gb_seen_has(seen, at++))
            continue;
        good &= next->fixed && !next->verdict ? gb_explain_member(run, node, name, place)
                                              : gb_eval(run, next, member, &below, NULL);
    }
    return good;
}

bool gb_unevaluated(struct gb_run *run, const struct gb_node *node, const json_t *value,
                    const struct gb_place *place, struct gb_seen *seen)
{
    bool good = true;
    if (node->unevaluated_properties && json_is_object(value))
        good = unevaluated_members(run, node, value, place, seen);
    else if (node->unevaluated_items && json_is_array(value))
        good = unevaluated_items(run, node, value, place, seen);
    else
        return true;
    gb_seen_add_all(seen);
    return good;
}
