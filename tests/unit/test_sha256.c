/* SHA-256, against libmd: every length around the ends of blocks, in pieces of every size. */
#include "unit.h"

#include "base/sha256.h"
#include "base/text.h"

#include <sha2.h>

static void known_answers(void **state)
{
    (void)state;
    /* FIPS 180-4 */
    static const struct {
        const char *text, *hash;
    } rows[] = {
            {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
            {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
            {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_sha256 ctx;
        uint8_t hash[GB_SHA256_BYTES];
        char hex[2 * GB_SHA256_BYTES + 1];
        gb_sha256_init(&ctx);
        gb_sha256_add(&ctx, rows[i].text, strlen(rows[i].text));
        gb_sha256_end(&ctx, hash);
        gb_text_hex(hash, sizeof(hash), hex);
        assert_string_equal(hex, rows[i].hash);
    }
}

static void as_libmd(void **state)
{
    (void)state;
    static uint8_t data[1000];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)rand_r(&seed);
    for (size_t len = 0; len <= sizeof(data); len++)
        for (size_t piece = 1; piece <= 130; piece += len < 200 ? 1 : 43) {
            struct gb_sha256 ours;
            SHA2_CTX theirs;
            uint8_t hash[GB_SHA256_BYTES], expected[SHA256_DIGEST_LENGTH];
            gb_sha256_init(&ours);
            for (size_t at = 0; at < len; at += piece)
                gb_sha256_add(&ours, data + at, len - at < piece ? len - at : piece);
            gb_sha256_end(&ours, hash);
            SHA256Init(&theirs);
            SHA256Update(&theirs, data, len);
            SHA256Final(expected, &theirs);
            if (memcmp(hash, expected, sizeof(hash)) != 0)
                fail_msg("%zu bytes in pieces of %zu", len, piece);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_answers), cmocka_unit_test(as_libmd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
