/* The audit as the store holds it: opened when it is needed, given up when it fails, begun with a START
 * record. Unless every commit is to wait for the disk, records go into its journal, and from there into the
 * tables when some have come together. */
#pragma once

#include "audit/audit.h"

struct gb_ledger {
    struct gb_audit *audit; /* NULL: not open, or given up after a failure; the next use tries again */
    struct gb_msg_retention keep;
    bool begun;  /* this process has written its START record */
    bool direct; /* the transaction that is open is one of the tables */
    bool behind; /* the last try to settle has failed: nothing more is taken before one succeeds */
};

/* Opens a transaction, whatever that takes. The first one of a process begins with a START record and a LOST
 * record for every call that nobody will finish. */
int gb_ledger_begin(struct gb_ledger *ledger, struct gb_err *err);
/* A record, and what its call has used (NULL: nothing is added). After a failure all is undone and the
 * transaction is over. */
int gb_ledger_append(struct gb_ledger *ledger, const struct gb_audit_record *record,
                     const struct gb_audit_usage *usage, int64_t *ret_seq, struct gb_err *err);
/* Must the transaction end before another record, since the journal might not hold it? */
bool gb_ledger_is_full(const struct gb_ledger *ledger);
int gb_ledger_commit(struct gb_ledger *ledger, struct gb_err *err);
/* Moves records from the journal into the tables, as many as take a moment. *ret_more: there are others. */
int gb_ledger_settle(struct gb_ledger *ledger, bool *ret_more, struct gb_err *err);
/* Is there anything to settle? */
bool gb_ledger_is_unsettled(const struct gb_ledger *ledger);
/* To be done when it is quiet; see gb_audit_tidy. */
bool gb_ledger_wants_tidying(const struct gb_ledger *ledger);
void gb_ledger_tidy(struct gb_ledger *ledger);
int gb_ledger_each(struct gb_ledger *ledger, const struct gb_audit_filter *filter,
                   int (*each)(void *context, const struct gb_audit_record *record), void *context,
                   struct gb_err *err);
int gb_ledger_each_usage(struct gb_ledger *ledger, const struct gb_audit_usage *behind, int64_t most,
                         int (*each)(void *context, const struct gb_audit_usage *usage), void *context,
                         struct gb_err *err);
/* One step of retention. */
int gb_ledger_retain(struct gb_ledger *ledger, int64_t *ret_removed, struct gb_err *err);
void gb_ledger_set(struct gb_ledger *ledger, const struct gb_msg_retention *keep);
void gb_ledger_close(struct gb_ledger *ledger);
