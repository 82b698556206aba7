/* What the tests of the audit share: a database in the working directory, and SQL behind the audit's back. */
#pragma once

#include "unit.h"

#include "audit/audit.h"

#include <sqlite3.h>

/* One statement or several on ./audit.db, as somebody would who may write to the file. */
static inline void tamper(const char *sql)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(GB_AUDIT_FILE, &db), SQLITE_OK);
    sqlite3_exec(db, sql, NULL, NULL, &why);
    if (why)
        fail_msg("%s: %s", sql, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline int64_t ask(const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_open(GB_AUDIT_FILE, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

static inline struct gb_audit *open_audit(bool writable)
{
    struct gb_audit *a = NULL;
    struct gb_err err = {0};
    if (gb_audit_open(".", writable, false, &a, &err))
        fail_msg("open: %s", err.text);
    return a;
}

static inline int64_t append_at(struct gb_audit *a, uint32_t kind, const char *id, int64_t time_us)
{
    struct gb_err err = {0};
    int64_t seq = 0;
    const char *body = "{\"tool\":\"execute_code\",\"status\":\"success\"}";
    struct gb_audit_record r = {.time_us = time_us,
                                .kind = kind,
                                .id = id,
                                .principal = *id ? "alice" : "",
                                .body = body,
                                .body_bytes = strlen(body)};
    if (gb_audit_append(a, &r, &seq, &err))
        fail_msg("append: %s", err.text);
    return seq;
}

static inline void begin(struct gb_audit *a)
{
    struct gb_err err = {0};
    if (gb_audit_begin(a, &err))
        fail_msg("begin: %s", err.text);
}

static inline void commit(struct gb_audit *a)
{
    struct gb_err err = {0};
    if (gb_audit_commit(a, &err))
        fail_msg("commit: %s", err.text);
}

/* Intent, launch and outcome of `calls` calls, in one transaction. */
static inline void append_calls(struct gb_audit *a, const char *prefix, int calls, int64_t time_us)
{
    begin(a);
    for (int i = 0; i < calls; i++) {
        char id[GB_ID_BYTES];
        snprintf(id, sizeof(id), "%s%d", prefix, i);
        append_at(a, GB_RECORD_INTENT, id, time_us);
        append_at(a, GB_RECORD_LAUNCH, id, time_us);
        append_at(a, GB_RECORD_OUTCOME, id, time_us);
    }
    commit(a);
}

static inline int64_t sound(void)
{
    struct gb_err err = {0};
    struct gb_audit *a = open_audit(false);
    int64_t count = 0;
    uint8_t head[GB_HASH_BYTES];
    if (gb_audit_verify(a, NULL, &count, head, &err))
        fail_msg("verify: %s", err.text);
    gb_audit_close(a);
    return count;
}

/* Verification must fail, and say all of these words (the last is NULL). */
static inline void unsound(const char *what, const char *const words[4])
{
    struct gb_err err = {0};
    struct gb_audit *a = NULL;
    int64_t count = 0;
    uint8_t head[GB_HASH_BYTES];
    int r = gb_audit_open(".", false, false, &a, &err);
    if (!r)
        r = gb_audit_verify(a, NULL, &count, head, &err);
    gb_audit_close(a);
    if (!r)
        fail_msg("%s: not noticed", what);
    for (size_t i = 0; i < 4 && words[i]; i++)
        if (!strstr(err.text, words[i]))
            fail_msg("%s: '%s' does not say '%s'", what, err.text, words[i]);
}
