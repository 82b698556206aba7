/* PostgreSQL: the parse tree of a statement, held against the policy. Internal to sql_check.c.
 *
 * The walk goes over every field of every message by its descriptor, so that no part of a tree is passed
 * over; a kind of node that has no row in the table of rules is refused. */
#pragma once

#include "broker/sql.h"

#include <pg_query.h>
#include <pg_query/pg_query.pb-c.h>

#define SQL_PLACES 128 /* tables that one statement may name */
#define SQL_NAMES  256

/* Where the statement names a table. */
struct sql_place {
    int32_t at; /* byte offset */
    const char *table;
    const json_t *columns; /* listed ones, or NULL */
    bool qualified;        /* with its schema */
    bool target;           /* what INSERT, UPDATE or DELETE changes */
    bool aliased;
};

struct sql_walk {
    struct sql *s;
    const char *schema;
    size_t params; /* $1 to $params may be there */
    bool strict;   /* it is the rewritten text: each table stands in the form that we gave it */
    /* found; the strings belong to the tree */
    bool writes;
    struct sql_place places[SQL_PLACES];
    size_t place_count;
    const char *names[SQL_NAMES]; /* b of a.b: a column, or else a function of a */
    size_t name_count;
    /* state */
    const char *ctes[SQL_NAMES];
    size_t cte_count;
    int depth;
    const json_t *target_columns; /* listed ones of the table that is changed, where that is in sight */
    const char *target_name;
    bool returning;
};

/* What is wrong goes to the call's denials. */
void sql_walk_tree(struct sql_walk *w, const PgQuery__ParseResult *tree);

/* --- between sql_walk.c and sql_walk_statement.c --- */

typedef bool sql_rule(struct sql_walk *w, const ProtobufCMessage *m); /* true: go on to the fields */

sql_rule sql_walk_table, sql_walk_cte, sql_walk_select, sql_walk_insert, sql_walk_update, sql_walk_delete,
        sql_walk_infer, sql_walk_index;

void sql_walk_node(struct sql_walk *w, const ProtobufCMessage *m);
void sql_walk_list(struct sql_walk *w, size_t count, PgQuery__Node *const *list);
/* All fields but the named one, which the caller sees to; NULL: all. */
void sql_walk_fields(struct sql_walk *w, const ProtobufCMessage *m, const char *but);
/* Where a field of a message is, and of how many parts it is if it is a list. */
const void *sql_walk_value(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);
size_t sql_walk_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);
const char *sql_walk_word(const PgQuery__Node *node); /* of a String, or NULL */
bool sql_walk_is_small(const PgQuery__Node *node);    /* a number of up to SQL_REPEAT_LIMIT */

/* " (character 12)", counted from 1, in the text as it was sent; "" if at is negative. */
const char *sql_walk_where(const struct sql_walk *w, int at, char buf[32]);

/* Is false, so that a rule can return it. */
#define SQL_REFUSE(w, at, hint, format, ...)                                                                 \
    __extension__({                                                                                          \
        char place_[32];                                                                                     \
        sql_deny((w)->s, hint, format "%s", __VA_ARGS__, sql_walk_where(w, at, place_));                     \
        false;                                                                                               \
    })
