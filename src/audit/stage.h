/* What the two ways into the tables share. For src/audit only. */
#pragma once

#include "audit/db.h"

/* A transaction, without regard to the journal. */
int gb_stage_begin(struct gb_audit *audit, struct gb_err *err);
/* Checks a record and gives it number, time and hash: the one behind `end`. */
int gb_stage_complete(const struct gb_chain_point *end, struct gb_audit_record *r, struct gb_err *err);
/* Within a transaction: a whole record becomes the newest of the tables. */
int gb_stage_insert(struct gb_audit *audit, const struct gb_audit_record *r, struct gb_err *err);
/* Likewise: its call waits for an end, or does not any more. */
int gb_stage_pend(struct gb_audit *audit, const char *id, bool pends, struct gb_err *err);
/* Likewise: adds to the row of its day. */
int gb_stage_charge(struct gb_audit *audit, const struct gb_audit_usage *usage, struct gb_err *err);
int gb_stage_check_usage(const struct gb_audit_usage *usage, struct gb_err *err);
int64_t gb_stage_today(void);

static inline bool gb_stage_opens(uint32_t kind)
{
    return kind == GB_RECORD_INTENT;
}

static inline bool gb_stage_ends(uint32_t kind)
{
    return kind == GB_RECORD_OUTCOME || kind == GB_RECORD_LOST;
}
