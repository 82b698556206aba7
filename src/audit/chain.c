#include "audit/chain.h"

#include "base/auto.h"

#include <sha2.h>
#include <string.h>

static const char *const kinds[GB_RECORD_KINDS] = {
        [GB_RECORD_START] = "start",     [GB_RECORD_INTENT] = "intent", [GB_RECORD_LAUNCH] = "launch",
        [GB_RECORD_OUTCOME] = "outcome", [GB_RECORD_LOST] = "lost",     [GB_RECORD_RETENTION] = "retention",
};

const char *gb_record_kind_name(uint32_t kind)
{
    return kind < ARRAY_LEN(kinds) && kinds[kind] ? kinds[kind] : "unknown";
}

void gb_audit_hex(const uint8_t hash[GB_HASH_BYTES], char ret_hex[2 * GB_HASH_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < GB_HASH_BYTES; i++) {
        ret_hex[2 * i] = digits[hash[i] >> 4];
        ret_hex[2 * i + 1] = digits[hash[i] & 15];
    }
    ret_hex[(size_t)2 * GB_HASH_BYTES] = '\0';
}

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
