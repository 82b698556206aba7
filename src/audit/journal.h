/* The journal: records that no kill of a process can lose any more, but that are not in the tables yet. One
 * write(2) is all that an acknowledgement needs; the tables, with their indexes, get what has come together
 * in one transaction, a moment later. For src/audit only.
 *
 * The file is entries behind each other. Each is a record of the chain, with its number and hash, so that
 * what counts need not be noted anywhere: it is what follows the newest record of the tables. What does not
 * (entries that are in the tables since, half an entry of a writer that was killed) is nothing. When all is
 * in the tables, the file is empty again. */
#pragma once

#include "audit/db.h"

#define GB_JOURNAL_BYTES ((size_t)1 << 20)
#define GB_JOURNAL_LEAST 96 /* bytes of an entry */

struct gb_journal_entry {
    struct gb_audit_record record;
    struct gb_audit_usage usage; /* tool "": none */
    size_t bytes;                /* of the whole entry */
};

/* Opens the directory of dir/audit.journal; a writer, the file too. */
int gb_journal_open(const char *dir, bool writable, struct gb_journal *ret_journal, struct gb_err *err);
/* Reads the file, if there is one. A reader does so before it looks at the tables: what is settled in between
 * is in both. */
int gb_journal_read(struct gb_journal *j, struct gb_err *err);
/* Finds out which entries follow the newest record of the tables. */
void gb_journal_follow(struct gb_journal *j, const struct gb_chain_point *head);
/* The entry at a place, which is one from `settled` to `kept`. */
void gb_journal_at(const struct gb_journal *j, size_t at, struct gb_journal_entry *ret_entry);
/* Puts a whole record, number and hash included, behind the others, in memory. -ENOBUFS: there is no room. */
int gb_journal_add(struct gb_journal *j, const struct gb_audit_record *record,
                   const struct gb_audit_usage *usage);
/* Writes what was added. On failure it is forgotten, here and in the file. */
int gb_journal_keep(struct gb_journal *j);
void gb_journal_forget(struct gb_journal *j);
/* The entries up to a place are in the tables. */
void gb_journal_settle(struct gb_journal *j, size_t to);
/* The file goes if nothing in it counts and we may write. */
void gb_journal_close(struct gb_journal *j);
