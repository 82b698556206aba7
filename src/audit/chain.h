/* How records are chained: SHA-256 over an encoding that can be read in one way only. Every number is 8
 * bytes, big end first; every text has its length before it. */
#pragma once

#include "audit/audit.h"

/* The hash of a record whose predecessor has the hash prev (zeros for the first). */
void gb_chain_hash(const uint8_t prev[GB_HASH_BYTES], const struct gb_audit_record *record,
                   uint8_t ret_hash[GB_HASH_BYTES]);
/* Folds a record that retention left before its cut into the digest of all of these. Its neighbours are gone,
 * so its own hash cannot be checked: the digest, which the RETENTION record names, takes its place. */
void gb_chain_fold(uint8_t digest[GB_HASH_BYTES], const struct gb_audit_record *record);
