/* What was used of tools, by days: sums beside the chain, from which budgets go on after a restart. Whoever
 * can write the file can change them unseen; records of the same calls are in the chain. */
#include "audit/journal.h"
#include "audit/stage.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define DAY_SECONDS 86400
#define DAYS_LEAST  2 /* that stay whatever the retention: today's, and yesterday's */

int64_t gb_stage_today(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec / DAY_SECONDS;
}

static bool is_name(const char *text, size_t size)
{
    const size_t len = strlen(text);
    return len && len < size && gb_text_find_binary(text, len) == len;
}

int gb_stage_check_usage(const struct gb_audit_usage *usage, struct gb_err *err)
{
    if (is_name(usage->principal, GB_PRINCIPAL) && is_name(usage->tool, GB_TOOL_NAME) && usage->calls >= 0 &&
        usage->calls <= 1 && usage->cpu_us >= 0 && usage->cpu_us <= GB_AUDIT_CPU_MOST)
        return 0;
    return gb_err_set(err, GB_ERR_INTERNAL, 0,
                      "usage cannot be added: a name or a number is not that of a call");
}

int gb_stage_charge(struct gb_audit *audit, const struct gb_audit_usage *usage, struct gb_err *err)
{
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_CHARGE);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, usage->day);
    sqlite3_bind_text(stmt, 2, usage->principal, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, usage->tool, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 4, usage->calls);
    sqlite3_bind_int64(stmt, 5, usage->cpu_us);
    return gb_db_step(audit, stmt, err);
}

int gb_audit_charge(struct gb_audit *audit, const struct gb_audit_usage *usage, struct gb_err *err)
{
    struct gb_audit_usage now = *usage;
    if (sqlite3_get_autocommit(audit->db))
        return gb_err_set(err, GB_ERR_INTERNAL, 0, "usage can only be added within a transaction");
    now.day = gb_stage_today();
    int r = gb_stage_check_usage(&now, err);
    if (!r)
        r = gb_stage_charge(audit, &now, err);
    if (r)
        gb_audit_rollback(audit);
    return r;
}

static const char *read_row(sqlite3_stmt *stmt, struct gb_audit_usage *ret)
{
    *ret = (struct gb_audit_usage){
            .day = sqlite3_column_int64(stmt, 0),
            .principal = (const char *)sqlite3_column_text(stmt, 1),
            .tool = (const char *)sqlite3_column_text(stmt, 2),
            .calls = sqlite3_column_int64(stmt, 3),
            .cpu_us = sqlite3_column_int64(stmt, 4),
    };
    if (!ret->principal || !ret->tool || !is_name(ret->principal, GB_PRINCIPAL) ||
        !is_name(ret->tool, GB_TOOL_NAME))
        return "a name that no call has";
    return ret->calls < 0 || ret->cpu_us < 0 ? "a number below 0" : NULL;
}

static int compare(const struct gb_audit_usage *a, const struct gb_audit_usage *b)
{
    const int order = strcmp(a->principal, b->principal);
    return order ? order : strcmp(a->tool, b->tool);
}

static int compare_rows(const void *a, const void *b)
{
    return compare(a, b);
}

/* What is in the journal of a day, behind the given names: summed up, and in the order of the table. */
static int find_unsettled(const struct gb_audit *audit, const struct gb_audit_usage *behind,
                          struct gb_audit_usage **ret_rows, size_t *ret_count, struct gb_err *err)
{
    const struct gb_journal *j = &audit->journal;
    struct gb_journal_entry e;
    size_t count = 0, i;
    struct gb_audit_usage *rows = calloc(j->kept / GB_JOURNAL_LEAST + 1, sizeof(*rows));
    if (!rows)
        return gb_err_set(err, GB_ERR_AUDIT, ENOMEM, "read what was used");
    for (size_t at = j->settled; at < j->kept; at += e.bytes) {
        gb_journal_at(j, at, &e);
        if (!*e.usage.tool || e.usage.day != behind->day || compare(&e.usage, behind) <= 0)
            continue;
        for (i = 0; i < count && compare(&rows[i], &e.usage) != 0; i++)
            ;
        if (i == count)
            rows[count++] = e.usage;
        else {
            rows[i].calls += e.usage.calls;
            rows[i].cpu_us += e.usage.cpu_us;
        }
    }
    qsort(rows, count, sizeof(*rows), compare_rows);
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

int gb_audit_each_usage(struct gb_audit *audit, const struct gb_audit_usage *behind, int64_t most,
                        int (*each)(void *context, const struct gb_audit_usage *usage), void *context,
                        struct gb_err *err)
{
    AUTO_FREE struct gb_audit_usage *waiting = NULL;
    size_t count = 0, at = 0;
    int r = find_unsettled(audit, behind, &waiting, &count, err);
    if (r)
        return r;
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_USAGE);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, behind->day);
    sqlite3_bind_text(stmt, 2, behind->principal, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, behind->tool, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 4, most);
    int found = gb_db_step(audit, stmt, err);
    for (; found >= 0 && most > 0 && (found || at < count); most--) {
        struct gb_audit_usage row;
        const char *fault = found ? read_row(stmt, &row) : NULL;
        if (fault)
            return gb_db_bad(err, "the audit database was changed: the table 'usage' holds %s", fault);
        const int order = !found ? 1 : at == count ? -1 : compare(&row, &waiting[at]);
        if (order > 0) {
            row = waiting[at++];
        } else if (order == 0) {
            row.calls += waiting[at].calls;
            row.cpu_us += waiting[at++].cpu_us;
        }
        if ((r = each(context, &row)))
            return r;
        if (order <= 0)
            found = gb_db_step(audit, stmt, err);
    }
    return found < 0 ? found : 0;
}

int gb_audit_forget_usage(struct gb_audit *audit, const struct gb_msg_retention *keep, struct gb_err *err)
{
    const int64_t days = (keep->keep_seconds + DAY_SECONDS - 1) / DAY_SECONDS;
    if (keep->keep_seconds <= 0)
        return 0;
    AUTO_RESET stmt = gb_db_get(audit, GB_SQL_FORGET_USAGE);
    if (!stmt)
        return gb_db_fail(audit, err);
    sqlite3_bind_int64(stmt, 1, gb_stage_today() + 1 - (days < DAYS_LEAST ? DAYS_LEAST : days));
    return gb_db_step(audit, stmt, err);
}
