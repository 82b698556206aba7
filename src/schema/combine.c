#include "schema/run.h"

#include "base/auto.h"

#include <string.h>

/* A branch whose failure is not yet the value's. What it saw counts only if it fits; missed (or NULL) has the
 * rest. */
static bool try_branch(struct gb_run *run, const struct gb_node *branch, const json_t *value,
                       const struct gb_place *place, struct gb_seen *seen, struct gb_seen *missed,
                       struct gb_report *report)
{
    struct gb_report *const outer = run->report;
    AUTO_SEEN own = {0};
    if (seen && !gb_seen_init(run, &own, value))
        return false;
    run->report = report;
    const bool good = gb_eval(run, branch, value, place, seen ? &own : NULL);
    run->report = outer;
    if (seen)
        gb_seen_merge(good ? seen : missed, &own);
    return good;
}

/* --- anyOf, oneOf --- */

struct tally {
    size_t valid;
    size_t first, second; /* of the valid ones */
};

/* Reports are kept of as many branches; more are not told apart. */
#define BRANCHES_TOLD 32
#define REPORT_STEPS  16 /* what one costs in steps */

static struct tally try_all(struct gb_run *run, const struct gb_nodes *branches, const json_t *value,
                            const struct gb_place *place, struct gb_seen *seen, size_t enough,
                            struct gb_report *reports)
{
    struct tally t = {0};
    AUTO_SEEN missed = {0};
    if (seen && reports && !gb_seen_init(run, &missed, value))
        return t;
    for (size_t i = 0; i < branches->count && !run->stop; i++) {
        struct gb_report *report = reports && i < BRANCHES_TOLD ? &reports[i] : NULL;
        if (report)
            *report = (struct gb_report){.base = place};
        if (!try_branch(run, branches->list[i], value, place, seen, reports ? &missed : NULL, report))
            continue;
        if (t.valid++ == 0)
            t.first = i;
        else if (t.valid == 2)
            t.second = i;
        if (t.valid >= enough)
            break;
    }
    if (!t.valid && seen && reports)
        gb_seen_merge(seen, &missed); /* the fault is told; that nobody looked at a member would be another */
    return t;
}

/* The problems of the branch that was most probably meant; or, if only one thing tells them apart, what it
 * could have been. */
static bool explain_none(struct gb_run *run, const struct gb_place *place, const struct gb_report *reports,
                         size_t count)
{
    const struct gb_report *best = NULL;
    const size_t told = count < BRANCHES_TOLD ? count : BRANCHES_TOLD;
    for (size_t i = 0; i < told; i++)
        if (reports[i].count && (!best || reports[i].miss < best->miss))
            best = &reports[i];
    if (!best)
        return gb_explain(run, place, GB_MISS_VALUE, "does not fit any of the %zu forms that are allowed",
                          count);
    if (best->count == 1 && best->miss >= GB_MISS_VALUE)
        return gb_explain_join(run, reports, told, best);
    return gb_explain_adopt(run, best);
}

/* Why none of them fits. They are tried again, with reports, which most values never need. */
static bool explain_branches(struct gb_run *run, const struct gb_nodes *branches, const json_t *value,
                             const struct gb_place *place, struct gb_seen *seen)
{
    const size_t told = branches->count < BRANCHES_TOLD ? branches->count : BRANCHES_TOLD;
    if (!run->report || !gb_eval_spend(run, told * REPORT_STEPS))
        return false;
    AUTO_FREE struct gb_report *reports = calloc(told, sizeof(*reports));
    if (!reports)
        return gb_eval_stop(run, "there is not enough memory");
    try_all(run, branches, value, place, seen, SIZE_MAX, reports);
    return explain_none(run, place, reports, branches->count);
}

static bool any_of(struct gb_run *run, const struct gb_node *node, const json_t *value,
                   const struct gb_place *place, struct gb_seen *seen)
{
    const struct gb_nodes *branches = &node->any_of;
    return !branches->count || try_all(run, branches, value, place, seen, seen ? SIZE_MAX : 1, NULL).valid ||
           explain_branches(run, branches, value, place, seen);
}

static bool one_of(struct gb_run *run, const struct gb_node *node, const json_t *value,
                   const struct gb_place *place, struct gb_seen *seen)
{
    const struct gb_nodes *branches = &node->one_of;
    if (!branches->count)
        return true;
    const struct tally t = try_all(run, branches, value, place, seen, 2, NULL);
    if (t.valid == 2)
        gb_explain(run, place, GB_MISS_DETAIL, "fits the forms %zu and %zu of %zu, but must fit exactly one",
                   t.first + 1, t.second + 1, branches->count);
    return t.valid == 1 || (!t.valid && explain_branches(run, branches, value, place, seen));
}

/* --- the rest --- */

static bool references(struct gb_run *run, const struct gb_node *node, const json_t *value,
                       const struct gb_place *place, struct gb_seen *seen)
{
    bool good = !node->ref || gb_eval(run, node->ref, value, place, seen);
    if (node->dynamic_ref && (good || run->report))
        good &= gb_eval(run, node->dynamic_ref, value, place, seen);
    return good;
}

static bool all_of(struct gb_run *run, const struct gb_node *node, const json_t *value,
                   const struct gb_place *place, struct gb_seen *seen)
{
    bool good = true;
    for (size_t i = 0; i < node->all_of.count && (good || run->report); i++)
        good &= gb_eval(run, node->all_of.list[i], value, place, seen);
    return good;
}

static bool not_it(struct gb_run *run, const struct gb_node *node, const json_t *value,
                   const struct gb_place *place, struct gb_seen *seen)
{
    (void)seen;
    if (!node->not_ || !try_branch(run, node->not_, value, place, NULL, NULL, NULL))
        return true;
    if (!run->report)
        return false;
    char shown[GB_VALUE_SHOWN];
    return gb_explain(run, place, GB_MISS_VALUE, "must not fit %s",
                      node->not_->fixed ? "anything" : gb_explain_value(node->not_->json, shown));
}

static bool conditional(struct gb_run *run, const struct gb_node *node, const json_t *value,
                        const struct gb_place *place, struct gb_seen *seen)
{
    if (!node->if_ || (!node->then_ && !node->else_ && !seen))
        return true;
    const bool met = try_branch(run, node->if_, value, place, seen, NULL, NULL);
    const struct gb_node *next = met ? node->then_ : node->else_;
    return !next || gb_eval(run, next, value, place, seen);
}

static bool dependents(struct gb_run *run, const struct gb_node *node, const json_t *value,
                       const struct gb_place *place, struct gb_seen *seen)
{
    bool good = true;
    for (const struct gb_named_node *d = node->dependents; d && (good || run->report); d = d->next)
        if (json_object_get(value, d->name))
            good &= gb_eval(run, d->node, value, place, seen);
    return good;
}

bool gb_combine(struct gb_run *run, const struct gb_node *node, const json_t *value,
                const struct gb_place *place, struct gb_seen *seen)
{
    static bool (*const stages[])(struct gb_run * run, const struct gb_node *node, const json_t *value,
                                  const struct gb_place *place, struct gb_seen *seen) = {
            references, all_of, any_of, one_of, not_it, conditional, dependents};
    bool good = true;
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]) && (good || run->report); i++)
        good &= stages[i](run, node, value, place, seen);
    return good;
}
