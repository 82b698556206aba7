/* The last few configurations, each a sealed memory file, known by the hash of its bytes. A call names the
 * one that it was decided under: while a reload is under way there are calls under both. One that was
 * replaced is good for a while only, so that nobody can go back to a policy that was tightened. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define GENERATIONS   8
#define GENERATION_US ((int64_t)120 * 1000000) /* for calls that were decided and wait for a slot */

struct generation {
    int fd; /* -1: none */
    int64_t replaced_us;
    char sha256[65];
};

struct generations {
    struct generation list[GENERATIONS]; /* the newest first */
};

void generation_init(struct generations *g);
/* Keeps fd, which becomes g's, as the newest; the oldest is given up. On failure fd stays the caller's. */
int generation_add(struct generations *g, int fd, int64_t now_us, struct gb_err *err);
/* Its descriptor, which stays g's, or -1. */
int generation_find(const struct generations *g, const char *sha256, int64_t now_us);
/* Maps a configuration. Release with munmap. */
int generation_map(int fd, const char **ret_text, size_t *ret_bytes, struct gb_err *err);
