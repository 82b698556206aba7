/* A connection to PostgreSQL, made from the policy's connection string and nothing else: no environment, no
 * password file, no service file. Internal to sql_postgres.c. */
#pragma once

#include "broker/sql.h"

#include <libpq-fe.h>

/* Errors say what kind of failure it was, but never host, user, database or secret. */
int sql_connect(struct sql *s, const char *conninfo, PGconn **ret, struct gb_err *err);

/* Waits until the server has something to say. False: the time is up. */
bool sql_connect_wait(const struct sql *s, PGconn *conn, short events);

static inline void sql_auto_conn(PGconn **conn)
{
    PQfinish(*conn);
}
static inline void sql_auto_result(PGresult **result)
{
    PQclear(*result);
}
#define AUTO_CONN   __attribute__((cleanup(sql_auto_conn))) PGconn *
#define AUTO_RESULT __attribute__((cleanup(sql_auto_result))) PGresult *
