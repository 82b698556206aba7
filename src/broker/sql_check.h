/* PostgreSQL: reads a statement with the server's own grammar, holds it against the policy, and makes the
 * text that is run: each table with its schema, and tables of which only some columns are listed as a query
 * of just those. That text is read and checked again: what was checked is what runs. */
#pragma once

#include "broker/sql.h"

struct sql_checked {
    char *text;    /* to run */
    json_t *names; /* array: each b of an a.b. Where it is no column, PostgreSQL calls a function of that name
                    */
    json_t *params; /* array: the argument for $1, $2, … */
    bool writes;
};

/* False: refused or failed, as the call says. */
bool sql_check(struct sql *s, const char *schema, struct sql_checked *ret);
void sql_check_done(struct sql_checked *c);

#define AUTO_CHECKED __attribute__((cleanup(sql_check_done))) struct sql_checked
