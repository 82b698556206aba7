#include "audit/chain.h"

#include "base/sha256.h"

#include <string.h>

static void add_number(struct gb_sha256 *ctx, uint64_t n)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(n >> (56 - 8 * i));
    gb_sha256_add(ctx, bytes, sizeof(bytes));
}

static void add_text(struct gb_sha256 *ctx, const char *text, size_t len)
{
    add_number(ctx, len);
    gb_sha256_add(ctx, text, len);
}

/* The domain keeps the two uses of the encoding apart. */
static void begin(struct gb_sha256 *ctx, const char *domain, const uint8_t prev[GB_HASH_BYTES])
{
    gb_sha256_init(ctx);
    add_text(ctx, domain, strlen(domain));
    gb_sha256_add(ctx, prev, GB_HASH_BYTES);
}

static void add_record(struct gb_sha256 *ctx, const struct gb_audit_record *r)
{
    add_number(ctx, (uint64_t)r->seq);
    add_number(ctx, (uint64_t)r->time_us);
    add_number(ctx, r->kind);
    add_text(ctx, r->id, strlen(r->id));
    add_text(ctx, r->principal, strlen(r->principal));
    add_text(ctx, r->body, r->body_bytes);
}

void gb_chain_hash(const uint8_t prev[GB_HASH_BYTES], const struct gb_audit_record *record,
                   uint8_t ret_hash[GB_HASH_BYTES])
{
    struct gb_sha256 ctx;
    begin(&ctx, "glovebox audit record 1", prev);
    add_record(&ctx, record);
    gb_sha256_end(&ctx, ret_hash);
}

void gb_chain_fold(uint8_t digest[GB_HASH_BYTES], const struct gb_audit_record *record)
{
    struct gb_sha256 ctx;
    begin(&ctx, "glovebox audit kept 1", digest);
    gb_sha256_add(&ctx, record->hash, GB_HASH_BYTES);
    add_record(&ctx, record);
    gb_sha256_end(&ctx, digest);
}
