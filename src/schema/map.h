/* A hash table from pairs of words (addresses, numbers) to one word. Zero-initialise; release with
 * gb_map_done. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gb_map_entry {
    uintptr_t a, b; /* a is never 0 */
    uintptr_t value;
};

struct gb_map {
    struct gb_map_entry *entries;
    size_t count, room;
    uint64_t seed;
};

/* NULL: not there. Good until the next gb_map_put. */
struct gb_map_entry *gb_map_get(const struct gb_map *m, uintptr_t a, uintptr_t b);
/* Sets or replaces. 0 or -ENOMEM. */
int gb_map_put(struct gb_map *m, uintptr_t a, uintptr_t b, uintptr_t value);
void gb_map_done(struct gb_map *m);
