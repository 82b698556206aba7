/* What every fuzz target shares. A target is one file, fuzz_NAME.c, with LLVMFuzzerTestOneInput, which checks
 * what must hold for any input at all; a row of `targets` says what it is linked with. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: it must hold in every build. */
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                   \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* A position from 0 to size that only the input decides, so that corpora stay plain text. */
static inline size_t fuzz_position(const uint8_t *data, size_t size)
{
    uint64_t hash = 14695981039346656037ULL;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 1099511628211ULL;
    return (size_t)((hash >> 16) % (size + 1));
}

/* A copy without a byte behind it, so that the sanitizer sees a read past the end. */
static inline char *fuzz_copy(const void *data, size_t size)
{
    char *copy = malloc(size ? size : 1);
    CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    return copy;
}
