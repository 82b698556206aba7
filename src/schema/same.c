#include "schema/same.h"

#include "base/auto.h"
#include "schema/decimal.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* --- SipHash-2-4, word by word --- */

struct sip {
    uint64_t v[4];
};

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(struct sip *s)
{
    uint64_t *v = s->v;
    v[0] += v[1], v[2] += v[3];
    v[1] = turn(v[1], 13) ^ v[0], v[3] = turn(v[3], 16) ^ v[2];
    v[0] = turn(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = turn(v[1], 17) ^ v[2], v[3] = turn(v[3], 21) ^ v[0];
    v[2] = turn(v[2], 32);
}

static void sip_word(struct sip *s, uint64_t word)
{
    s->v[3] ^= word;
    sip_round(s);
    sip_round(s);
    s->v[0] ^= word;
}

static struct sip sip_start(const struct gb_same_key *key, uint64_t kind)
{
    struct sip s = {{key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d,
                     key->k[0] ^ 0x6c7967656e657261, key->k[1] ^ 0x7465646279746573}};
    sip_word(&s, kind);
    return s;
}

static uint64_t sip_end(struct sip *s)
{
    s->v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(s);
    return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

static void sip_bytes(struct sip *s, const char *data, size_t len)
{
    sip_word(s, len);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, data + i, len - i < 8 ? len - i : 8);
        sip_word(s, word);
    }
}

/* --- values --- */

void gb_same_seed(struct gb_same_key *ret_key)
{
    /* Where the kernel would not answer, the addresses of this process are what is left; bounds on steps hold
     * with any key. */
    if (getrandom(ret_key, sizeof(*ret_key), GRND_NONBLOCK) != sizeof(*ret_key))
        ret_key->k[0] = (uintptr_t)ret_key, ret_key->k[1] = (uintptr_t)&gb_same_seed;
}

enum kind { KIND_FIXED = 1, KIND_NUMBER, KIND_STRING, KIND_ARRAY, KIND_OBJECT, KIND_MEMBER };

/* NOLINTBEGIN(misc-no-recursion): as deep as gb_schema_check allows */
static uint64_t hash_object(const struct gb_same_key *key, const json_t *value, uint64_t *steps)
{
    uint64_t sum = json_object_size(value);
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member) {
        struct sip s = sip_start(key, KIND_MEMBER);
        sip_bytes(&s, name, strlen(name));
        sip_word(&s, gb_same_hash(key, member, steps));
        sum += sip_end(&s); /* a sum knows no order */
    }
    struct sip s = sip_start(key, KIND_OBJECT);
    sip_word(&s, sum);
    return sip_end(&s);
}

uint64_t gb_same_hash(const struct gb_same_key *key, const json_t *value, uint64_t *steps)
{
    struct sip s = sip_start(key, KIND_FIXED);
    *steps += 1;
    if (json_is_object(value))
        return hash_object(key, value, steps);
    if (json_is_array(value)) {
        size_t i;
        json_t *item;
        s = sip_start(key, KIND_ARRAY);
        json_array_foreach((json_t *)value, i, item)
            sip_word(&s, gb_same_hash(key, item, steps));
    } else if (json_is_string(value)) {
        s = sip_start(key, KIND_STRING);
        sip_bytes(&s, json_string_value(value), json_string_length(value));
        *steps += json_string_length(value) / 64;
    } else if (json_is_number(value)) {
        const struct gb_decimal number = gb_decimal_of(value);
        s = sip_start(key, KIND_NUMBER);
        sip_word(&s, number.digits);
        sip_word(&s, (uint64_t)number.exponent << 1 | number.negative);
    } else {
        sip_word(&s, (uint64_t)json_typeof(value));
    }
    return sip_end(&s);
}

static bool equal_objects(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *member;
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach((json_t *)a, name, member) {
        const json_t *other = json_object_get(b, name);
        if (!other || !gb_same_equal(member, other))
            return false;
    }
    return true;
}

static bool equal_arrays(const json_t *a, const json_t *b)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!gb_same_equal(json_array_get(a, i), json_array_get(b, i)))
            return false;
    return true;
}

bool gb_same_equal(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b)) {
        const struct gb_decimal x = gb_decimal_of(a), y = gb_decimal_of(b);
        return gb_decimal_compare(&x, &y) == 0;
    }
    if (json_typeof(a) != json_typeof(b))
        return false;
    switch (json_typeof(a)) {
    case JSON_OBJECT:
        return equal_objects(a, b);
    case JSON_ARRAY:
        return equal_arrays(a, b);
    case JSON_STRING:
        return json_string_length(a) == json_string_length(b) &&
               !memcmp(json_string_value(a), json_string_value(b), json_string_length(a));
    default:
        return true;
    }
}

/* NOLINTEND(misc-no-recursion) */

/* --- many values --- */

struct entry {
    uint64_t hash;
    const json_t *value;
    size_t index;
};

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void fill(const struct gb_same_key *key, const json_t *array, uint64_t *steps,
                 struct entry *ret_entries)
{
    const size_t n = json_array_size(array);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, i);
        ret_entries[i] = (struct entry){gb_same_hash(key, value, steps), value, i};
    }
    qsort(ret_entries, n, sizeof(*ret_entries), by_hash);
}

int gb_same_find_pair(const struct gb_same_key *key, const json_t *array, uint64_t *steps, size_t *ret_first,
                      size_t *ret_second)
{
    const size_t n = json_array_size(array);
    size_t second = n;
    AUTO_FREE struct entry *entries = n > 1 ? calloc(n, sizeof(*entries)) : NULL;
    if (n < 2)
        return 0;
    if (!entries)
        return -ENOMEM;
    fill(key, array, steps, entries);
    for (size_t i = 0; i < n; i++)
        /* Equal hashes stand in the order of their indices, so what follows is no earlier pair. */
        for (size_t j = i + 1; j < n && entries[j].hash == entries[i].hash && entries[j].index < second; j++)
            if (gb_same_equal(entries[i].value, entries[j].value)) {
                *ret_first = entries[i].index;
                *ret_second = second = entries[j].index;
            }
    return second < n;
}

struct gb_same_set {
    struct gb_same_key key;
    size_t count;
    struct entry entries[];
};

struct gb_same_set *gb_same_set_new(const struct gb_same_key *key, const json_t *array)
{
    uint64_t steps = 0;
    const size_t n = json_array_size(array);
    struct gb_same_set *set = calloc(1, sizeof(*set) + n * sizeof(set->entries[0]));
    if (!set)
        return NULL;
    set->key = *key;
    set->count = n;
    fill(key, array, &steps, set->entries);
    return set;
}

/* Comparing with a given array or object ends where they differ, so it costs no more than that one is large;
 * hashing would cost what the value is. */
static bool has_container(const struct gb_same_set *set, const json_t *value, uint64_t *steps)
{
    *steps += set->count;
    for (size_t i = 0; i < set->count; i++)
        if (gb_same_equal(set->entries[i].value, value))
            return true;
    return false;
}

bool gb_same_set_has(const struct gb_same_set *set, const json_t *value, uint64_t *steps)
{
    if (json_is_array(value) || json_is_object(value))
        return has_container(set, value, steps);
    const uint64_t hash = gb_same_hash(&set->key, value, steps);
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (set->entries[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < set->count && set->entries[low].hash == hash; low++)
        if (gb_same_equal(set->entries[low].value, value))
            return true;
    return false;
}

void gb_same_set_free(struct gb_same_set *set)
{
    free(set);
}
