/* SHA-256, by the instructions that the processor has for it, else by libmd. A call is hashed several times
 * (arguments, payload, three records), and with the instructions that costs a seventh. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GB_SHA256_BYTES 32
#define GB_SHA256_BLOCK 64

struct gb_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* added so far */
    uint8_t block[GB_SHA256_BLOCK];
};

void gb_sha256_init(struct gb_sha256 *ctx);
void gb_sha256_add(struct gb_sha256 *ctx, const void *data, size_t len);
void gb_sha256_end(struct gb_sha256 *ctx, uint8_t ret_hash[GB_SHA256_BYTES]);
