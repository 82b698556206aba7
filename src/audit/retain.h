/* What a RETENTION record says. For src/audit only. */
#pragma once

#include "audit/db.h"

#define GB_RETENTION_BODY 384

/* Counts the records up to the cut and folds them into a digest. */
int gb_retain_kept(struct gb_audit *audit, int64_t through, int64_t *ret_count,
                   uint8_t ret_digest[GB_HASH_BYTES], struct gb_err *err);
/* {"through":N,"hash":"…","removed":M,"kept":K,"kept_hash":"…"}: the cut, how many records this step removed,
 * and those that stay before the cut because their call is whole only with them. Returns the length of the
 * part before "kept". */
size_t gb_retain_body(const struct gb_chain_point *base, int64_t kept, const uint8_t digest[GB_HASH_BYTES],
                      char ret_body[GB_RETENTION_BODY]);
