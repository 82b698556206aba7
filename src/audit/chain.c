#include "audit/chain.h"

#include "base/auto.h"

#include <sha2.h>
#include <string.h>

static void add_number(SHA2_CTX *ctx, uint64_t n)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(n >> (56 - 8 * i));
    SHA256Update(ctx, bytes, sizeof(bytes));
}

static void add_text(SHA2_CTX *ctx, const char *text, size_t len)
{
    add_number(ctx, len);
    SHA256Update(ctx, (const uint8_t *)text, len);
}

/* The domain keeps the two uses of the encoding apart. */
static void begin(SHA2_CTX *ctx, const char *domain, const uint8_t prev[GB_HASH_BYTES])
{
    SHA256Init(ctx);
    add_text(ctx, domain, strlen(domain));
    SHA256Update(ctx, prev, GB_HASH_BYTES);
}

static void add_record(SHA2_CTX *ctx, const struct gb_audit_record *r)
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
    SHA2_CTX ctx;
    begin(&ctx, "glovebox audit record 1", prev);
    add_record(&ctx, record);
    SHA256Final(ret_hash, &ctx);
}

void gb_chain_fold(uint8_t digest[GB_HASH_BYTES], const struct gb_audit_record *record)
{
    SHA2_CTX ctx;
    begin(&ctx, "glovebox audit kept 1", digest);
    SHA256Update(&ctx, record->hash, GB_HASH_BYTES);
    add_record(&ctx, record);
    SHA256Final(digest, &ctx);
}
