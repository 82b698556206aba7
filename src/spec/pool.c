#include "spec/pool.h"

#include "base/auto.h"
#include "base/sha256.h"
#include "base/text.h"

#include <string.h>

const struct gb_pool_kind_row gb_pool_kinds[GB_POOL_KINDS] = {
        [GB_POOL_PLAIN] = {"plain", NULL, "a box in which any program can be started"},
        [GB_POOL_PYTHON] = {"python", "python", "a box with a Python that has started and waits"},
        [GB_POOL_NODE] = {"node", "node", "a box with a Node that has started and waits"},
};

uint64_t gb_pool_key(enum gb_pool_kind kind, const char *program, const char *preload)
{
    const uint8_t number = (uint8_t)kind;
    uint8_t digest[GB_SHA256_BYTES];
    uint64_t key = 0;
    struct gb_sha256 ctx;
    gb_sha256_init(&ctx);
    gb_sha256_add(&ctx, &number, sizeof(number));
    /* With their NUL: where one ends and the other begins is part of it. */
    gb_sha256_add(&ctx, program, strlen(program) + 1);
    gb_sha256_add(&ctx, preload, strlen(preload) + 1);
    gb_sha256_end(&ctx, digest);
    memcpy(&key, digest, sizeof(key));
    return key ? key : 1;
}

enum gb_pool_kind gb_pool_kind_for(const struct gb_runtime *runtime)
{
    for (size_t i = 0; runtime && i < GB_POOL_KINDS; i++)
        if (gb_pool_kinds[i].runtime && !strcmp(gb_pool_kinds[i].runtime, runtime->name))
            return (enum gb_pool_kind)i;
    return GB_POOL_PLAIN;
}

#define PYTHON (1U << GB_POOL_PYTHON)
#define NODE   (1U << GB_POOL_NODE)
#define BOTH   (PYTHON | NODE)

/* Variables that are read once, before the first line of a script: an interpreter that waits has read them. A
 * call that sets one gets a box in which the interpreter has yet to start. A name that ends with * stands for
 * all that begin so.
 *
 * Modules that a profile preloads have read theirs, too. Those of the libraries for numbers are here, because
 * what they are told (how many threads) is often told by a call; for others the operator decides by what is
 * preloaded. */
static const struct {
    const char *name;
    unsigned kinds;
} start_env[] = {
        /* The dynamic linker and the C library, before main. */
        {"LD_*", BOTH},
        {"GLIBC_*", BOTH},
        {"MALLOC_*", BOTH},
        /* The locale, and how the C library finds it: setlocale when the interpreter starts. */
        {"LANG", BOTH},
        {"LANGUAGE", BOTH},
        {"LC_*", BOTH},
        {"LOCPATH", BOTH},
        {"GCONV_PATH", BOTH},
        /* The time zone: tzset when `time` is first imported, and localtime_r does not look again. */
        {"TZ", BOTH},
        {"TZDIR", BOTH},
        /* Which interpreter it is, and where that looks for its own library. */
        {"PATH", BOTH},
        /* Packages of the user, which `site` looks for when it starts. */
        {"HOME", PYTHON},
        {"PYTHON*", PYTHON},
        {"NODE_*", NODE},
        {"UV_*", NODE},
        {"SSL_CERT_*", NODE},
        /* The library's own configuration, read with its first use; Node has used it when it waits. */
        {"OPENSSL_*", BOTH},
        /* Colours of the console, decided when it is made. */
        {"NO_COLOR", NODE},
        {"FORCE_COLOR", NODE},
        {"TERM", NODE},
        {"COLORTERM", NODE},
        /* Libraries for numbers, with their import. */
        {"OMP_*", PYTHON},
        {"GOMP_*", PYTHON},
        {"KMP_*", PYTHON},
        {"MKL_*", PYTHON},
        {"BLIS_*", PYTHON},
        {"OPENBLAS_*", PYTHON},
        {"GOTO_*", PYTHON},
        {"NPY_*", PYTHON},
        {"NUMEXPR_*", PYTHON},
        {"NUMBA_*", PYTHON},
        {"MPL*", PYTHON},
};

bool gb_pool_takes_env(enum gb_pool_kind kind, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(start_env); i++)
        if (start_env[i].kinds >> kind & 1 && gb_text_is_like(name, start_env[i].name))
            return false;
    return true;
}

bool gb_pool_has_limits(const struct gb_limits *a, const struct gb_limits *b)
{
    struct gb_limits same = *a;
    same.timeout_ms = b->timeout_ms;
    same.output_bytes = b->output_bytes;
    return !memcmp(&same, b, sizeof(same));
}
