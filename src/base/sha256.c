#include "base/sha256.h"

#include <endian.h>
#include <sha2.h>
#include <stdbool.h>
#include <string.h>

typedef void blocks_fn(uint32_t state[8], const uint8_t *data, size_t count);

static void plain_blocks(uint32_t state[8], const uint8_t *data, size_t count)
{
    for (; count; count--, data += GB_SHA256_BLOCK)
        SHA256Transform(state, data);
}

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>

static const uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* Four rounds in a step, sixteen steps to a block. The instructions want the state as (a, b, e, f) and
 * (c, d, g, h), and each step makes the four words of the message that are needed four steps later. */
__attribute__((target("sha,ssse3,sse4.1"))) static void quick_blocks(uint32_t state[8], const uint8_t *data,
                                                                     size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const void *)state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; count; count--, data += GB_SHA256_BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i words[4];
        for (int step = 0; step < 16; step++) {
            __m128i *now = &words[step % 4];
            if (step < 4) {
                *now = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(data + (size_t)step * 16)), swap);
            } else {
                const __m128i last = words[(step + 3) % 4], before = words[(step + 2) % 4];
                *now = _mm_sha256msg1_epu32(*now, words[(step + 1) % 4]);
                *now = _mm_add_epi32(*now, _mm_alignr_epi8(last, before, 4));
                *now = _mm_sha256msg2_epu32(*now, last);
            }
            const __m128i keyed =
                    _mm_add_epi32(*now, _mm_loadu_si128((const void *)(constants + (size_t)step * 4)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static bool is_quick(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}

/* Asked once. A program of several threads may ask twice, for the same answer. */
static blocks_fn *blocks(void)
{
    static blocks_fn *chosen;
    if (!chosen)
        chosen = is_quick() ? quick_blocks : plain_blocks;
    return chosen;
}

#else

static blocks_fn *blocks(void)
{
    return plain_blocks;
}

#endif

void gb_sha256_init(struct gb_sha256 *ctx)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(ctx->state, start, sizeof(start));
    ctx->bytes = 0;
}

void gb_sha256_add(struct gb_sha256 *ctx, const void *data, size_t len)
{
    const uint8_t *p = data;
    const size_t have = ctx->bytes % GB_SHA256_BLOCK;
    ctx->bytes += len;
    if (have) {
        const size_t room = GB_SHA256_BLOCK - have, n = len < room ? len : room;
        if (n)
            memcpy(ctx->block + have, p, n);
        if (n < room)
            return;
        blocks()(ctx->state, ctx->block, 1);
        p += n;
        len -= n;
    }
    if (len >= GB_SHA256_BLOCK)
        blocks()(ctx->state, p, len / GB_SHA256_BLOCK);
    if (len % GB_SHA256_BLOCK)
        memcpy(ctx->block, p + len - len % GB_SHA256_BLOCK, len % GB_SHA256_BLOCK);
}

void gb_sha256_end(struct gb_sha256 *ctx, uint8_t ret_hash[GB_SHA256_BYTES])
{
    static const uint8_t padding[GB_SHA256_BLOCK] = {0x80};
    const uint64_t bits = htobe64(ctx->bytes * 8);
    const size_t have = ctx->bytes % GB_SHA256_BLOCK;
    gb_sha256_add(ctx, padding, (have < 56 ? 56 : 120) - have);
    gb_sha256_add(ctx, &bits, sizeof(bits));
    for (size_t i = 0; i < 8; i++) {
        const uint32_t word = htobe32(ctx->state[i]);
        memcpy(ret_hash + 4 * i, &word, sizeof(word));
    }
}
