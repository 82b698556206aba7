/* The quick way: staged, kept in the journal, settled in the tables. What comes of many records in the tables
 * is the same as if each had been appended by itself; but calls that begin and end among them are not noted
 * as pending in between, and what they have used is added up first. */
#include "audit/stage.h"

#include "audit/chain.h"
#include "audit/journal.h"

#include <errno.h>
#include <string.h>

#define CALLS 64 /* that are open, and sums of usage, at once; one more is written down */

struct sums {
    const char *open[CALLS]; /* ids */
    size_t open_count;
    struct gb_audit_usage used[CALLS];
    size_t used_count;
};

/* --- staging --- */

static int undone(struct gb_audit *audit, int r)
{
    if (r)
        gb_journal_forget(&audit->journal);
    return r;
}

int gb_audit_stage(struct gb_audit *audit, const struct gb_audit_record *record,
                   const struct gb_audit_usage *usage, int64_t *ret_seq, struct gb_err *err)
{
    struct gb_journal *j = &audit->journal;
    struct gb_audit_record r = *record;
    struct gb_audit_usage used = usage ? *usage : (struct gb_audit_usage){0};
    int rc = j->fd >= 0 ? gb_stage_complete(&j->end, &r, err)
                        : gb_err_set(err, GB_ERR_INTERNAL, 0, "this audit has no journal");
    if (!rc && usage) {
        used.day = gb_stage_today();
        rc = strcmp(used.principal, r.principal)
                     ? gb_err_set(err, GB_ERR_INTERNAL, 0,
                                  "usage cannot be added: it is not that of the record's principal")
                     : gb_stage_check_usage(&used, err);
    }
    if (!rc && (rc = gb_journal_add(j, &r, usage ? &used : NULL)))
        gb_err_set(err, GB_ERR_AUDIT, -rc, "the audit's journal is full");
    if (rc)
        return undone(audit, rc);
    if (ret_seq)
        *ret_seq = r.seq;
    return 0;
}

int gb_audit_keep(struct gb_audit *audit, struct gb_err *err)
{
    const int r = gb_journal_keep(&audit->journal);
    if (r)
        gb_err_set(err, GB_ERR_AUDIT, r == -ENOSPC ? 0 : -r, "the audit's journal cannot be written%s",
                   r == -ENOSPC ? ": the disk is full" : "");
    return r;
}

size_t gb_audit_unsettled(const struct gb_audit *audit)
{
    return audit->journal.kept - audit->journal.settled;
}

size_t gb_audit_room(const struct gb_audit *audit)
{
    return GB_JOURNAL_BYTES - audit->journal.len;
}

/* --- settling --- */

static int note_pending(struct gb_audit *audit, struct sums *s, const struct gb_audit_record *r,
                        struct gb_err *err)
{
    size_t i = 0;
    if (!gb_stage_opens(r->kind) && !gb_stage_ends(r->kind))
        return 0;
    while (i < s->open_count && strcmp(s->open[i], r->id) != 0)
        i++;
    const bool known = i < s->open_count;
    if (gb_stage_opens(r->kind)) {
        if (!known && s->open_count == CALLS)
            return gb_stage_pend(audit, r->id, true, err);
        if (!known)
            s->open[s->open_count++] = r->id;
        return 0;
    }
    if (known)
        s->open[i] = s->open[--s->open_count];
    /* It is not there, unless a front uses an id twice; that costs a look, and no page is written. */
    return gb_stage_pend(audit, r->id, false, err);
}

static int add_usage(struct gb_audit *audit, struct sums *s, const struct gb_audit_usage *u,
                     struct gb_err *err)
{
    size_t i = 0;
    if (!*u->tool)
        return 0;
    while (i < s->used_count && (s->used[i].day != u->day || strcmp(s->used[i].tool, u->tool) != 0 ||
                                 strcmp(s->used[i].principal, u->principal) != 0))
        i++;
    if (i < s->used_count) {
        s->used[i].calls += u->calls;
        s->used[i].cpu_us += u->cpu_us;
    } else if (s->used_count < CALLS) {
        s->used[s->used_count++] = *u;
    } else {
        return gb_stage_charge(audit, u, err);
    }
    return 0;
}

static int write_sums(struct gb_audit *audit, const struct sums *s, struct gb_err *err)
{
    int r = 0;
    for (size_t i = 0; !r && i < s->open_count; i++)
        r = gb_stage_pend(audit, s->open[i], true, err);
    for (size_t i = 0; !r && i < s->used_count; i++)
        r = gb_stage_charge(audit, &s->used[i], err);
    return r;
}

/* Behind our back nobody may have written: then the first entry does not follow any more. */
static int check_place(struct gb_audit *audit, struct gb_err *err)
{
    struct gb_journal_entry first;
    uint8_t hash[GB_HASH_BYTES];
    gb_journal_at(&audit->journal, audit->journal.settled, &first);
    gb_chain_hash(audit->head.hash, &first.record, hash);
    if (first.record.seq == audit->head.seq + 1 && !memcmp(hash, first.record.hash, GB_HASH_BYTES))
        return 0;
    return gb_db_bad(err, "the audit database was changed: its newest record is not the one that was written "
                          "last");
}

/* Returns where it has come to in the journal. */
static int write_entries(struct gb_audit *audit, size_t most, size_t *ret_to, struct gb_err *err)
{
    const struct gb_journal *j = &audit->journal;
    struct sums sums = {0};
    size_t at = j->settled;
    int r = check_place(audit, err);
    for (; !r && most && at < j->kept; most--) {
        struct gb_journal_entry e;
        gb_journal_at(j, at, &e);
        r = gb_stage_insert(audit, &e.record, err);
        if (!r)
            r = note_pending(audit, &sums, &e.record, err);
        if (!r)
            r = add_usage(audit, &sums, &e.usage, err);
        at += e.bytes;
    }
    *ret_to = at;
    return r ? r : write_sums(audit, &sums, err);
}

int gb_audit_settle(struct gb_audit *audit, size_t most, struct gb_err *err)
{
    size_t to;
    if (!gb_audit_unsettled(audit))
        return 0;
    int r = gb_stage_begin(audit, err);
    if (r)
        return r;
    if ((r = write_entries(audit, most, &to, err))) {
        gb_audit_rollback(audit);
        return r;
    }
    if ((r = gb_audit_commit(audit, err)))
        return r;
    gb_journal_settle(&audit->journal, to);
    return 0;
}
