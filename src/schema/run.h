/* Inside src/schema: one check of one value. */
#pragma once

#include "schema/tree.h"

#define GB_RUN_STEPS_MOST 5000000 /* a second or two */
#define GB_RUN_DEPTH_MOST 1000

/* Where in the value: from the inside out. */
struct gb_place {
    const struct gb_place *up; /* NULL: the value itself */
    const char *name;          /* of a member; NULL: an item */
    size_t index;
};

/* How badly a branch misses, to find the one that was meant. */
enum {
    GB_MISS_DETAIL = 1,    /* a value somewhere is not as it should be */
    GB_MISS_MEMBER = 8,    /* a member is missing or not allowed */
    GB_MISS_VALUE = 64,    /* const or enum: what tells branches apart */
    GB_MISS_TYPE = 100000, /* another type altogether */
};

struct gb_report {
    struct gb_schema_problem list[GB_SCHEMA_PROBLEMS];
    size_t count;
    uint64_t miss;
    const struct gb_place *base; /* the value that this is about */
};

/* Which members or items were looked at, by index. */
struct gb_seen {
    size_t count;
    uint64_t *bits;
    uint64_t few; /* the bits, if these are enough */
};

struct gb_kept;

struct gb_run {
    const struct gb_schema *schema;
    const char *root;
    uint64_t steps, most;
    unsigned depth;
    const char *stop;         /* why it was given up; NULL: it was not */
    struct gb_report *report; /* NULL: only the verdict is wanted */
    struct gb_map memory;     /* node and value -> what eval.c knows of them */
    struct gb_kept *kept;     /* what was seen */
    json_t *names;            /* the names of members that were looked at as values */
    struct gb_ecma_search *search;
};

/* --- eval.c --- */
bool gb_eval(struct gb_run *run, const struct gb_node *node, const json_t *value,
             const struct gb_place *place, struct gb_seen *seen);
/* Counts steps; false: there have been too many, and the run is given up. */
bool gb_eval_spend(struct gb_run *run, uint64_t steps);
bool gb_eval_stop(struct gb_run *run, const char *why);
void gb_eval_done(struct gb_run *run);
/* 1, 0, or -1 with the run given up. */
int gb_eval_find(struct gb_run *run, const struct gb_ecma *pattern, const char *text, size_t len);

/* --- combine.c: what applies to the same value --- */
bool gb_combine(struct gb_run *run, const struct gb_node *node, const json_t *value,
                const struct gb_place *place, struct gb_seen *seen);

/* --- members.c: what applies to members and items --- */
bool gb_members(struct gb_run *run, const struct gb_node *node, const json_t *value,
                const struct gb_place *place, struct gb_seen *seen);
bool gb_items(struct gb_run *run, const struct gb_node *node, const json_t *value,
              const struct gb_place *place, struct gb_seen *seen);
bool gb_unevaluated(struct gb_run *run, const struct gb_node *node, const json_t *value,
                    const struct gb_place *place, struct gb_seen *seen);

/* --- seen.c --- */
/* For that value; false: there is no memory, and the run is given up. */
bool gb_seen_init(struct gb_run *run, struct gb_seen *seen, const json_t *value);
void gb_seen_done(struct gb_seen *seen);
/* seen may be NULL: nobody wants to know. */
void gb_seen_add(struct gb_seen *seen, size_t index);
void gb_seen_add_all(struct gb_seen *seen);
void gb_seen_merge(struct gb_seen *seen, const struct gb_seen *more);
bool gb_seen_has(const struct gb_seen *seen, size_t index);
size_t gb_seen_words(const struct gb_seen *seen);
#define AUTO_SEEN __attribute__((cleanup(gb_seen_done))) struct gb_seen

/* --- explain.c --- */
/* Adds a problem if these are wanted. Always false, so that a check can end with it. */
bool gb_explain(struct gb_run *run, const struct gb_place *place, unsigned miss, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
#define GB_VALUE_SHOWN 100
/* A value in few words, or a given one as it would be written. */
const char *gb_explain_value(const json_t *value, char buf[static GB_VALUE_SHOWN]);
/* A list of values: as much as goes. */
void gb_explain_values(const json_t *array, char *buf, size_t size);
/* That a member is not allowed, and which are. */
bool gb_explain_member(struct gb_run *run, const struct gb_node *node, const char *name,
                       const struct gb_place *place);
bool gb_explain_is_full(const struct gb_run *run);
/* "must be this, or that": of all branches that have one problem, and that where the best has it. */
bool gb_explain_join(struct gb_run *run, const struct gb_report *reports, size_t count,
                     const struct gb_report *best);
/* All of its problems as those of the run. */
bool gb_explain_adopt(struct gb_run *run, const struct gb_report *report);
