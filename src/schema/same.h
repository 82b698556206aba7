/* When two JSON values are the same to a schema: numbers by value (1 is 1.0), objects whatever the order of
 * their members. Hashes are keyed, so that nobody can choose values that collide. Values may be as deep as
 * gb_schema_check takes them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct gb_same_key {
    uint64_t k[2];
};

void gb_same_seed(struct gb_same_key *ret_key);
bool gb_same_equal(const json_t *a, const json_t *b);
/* Adds how many values it looked at, and a part for long strings, to *steps. */
uint64_t gb_same_hash(const struct gb_same_key *key, const json_t *value, uint64_t *steps);

/* The first pair of equal items, 1: found, 0: none, -ENOMEM. */
int gb_same_find_pair(const struct gb_same_key *key, const json_t *array, uint64_t *steps, size_t *ret_first,
                      size_t *ret_second);

/* The values of an enum, so that looking for a scalar does not take longer with more of them. */
struct gb_same_set;

struct gb_same_set *gb_same_set_new(const struct gb_same_key *key, const json_t *array);
bool gb_same_set_has(const struct gb_same_set *set, const json_t *value, uint64_t *steps);
void gb_same_set_free(struct gb_same_set *set);
