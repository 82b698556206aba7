#include "schema/map.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static struct gb_map_entry *slot(const struct gb_map *m, uintptr_t a, uintptr_t b)
{
    size_t i = (size_t)mix(a + mix(b ^ m->seed)) & (m->room - 1);
    while (m->entries[i].a && (m->entries[i].a != a || m->entries[i].b != b))
        i = (i + 1) & (m->room - 1);
    return &m->entries[i];
}

struct gb_map_entry *gb_map_get(const struct gb_map *m, uintptr_t a, uintptr_t b)
{
    struct gb_map_entry *found = m->room ? slot(m, a, b) : NULL;
    return found && found->a ? found : NULL;
}

static int grow(struct gb_map *m)
{
    struct gb_map larger = {.room = m->room ? m->room * 2 : 64, .seed = m->seed, .count = m->count};
    larger.entries = calloc(larger.room, sizeof(*larger.entries));
    if (!larger.entries)
        return -ENOMEM;
    for (size_t i = 0; i < m->room; i++)
        if (m->entries[i].a)
            *slot(&larger, m->entries[i].a, m->entries[i].b) = m->entries[i];
    free(m->entries);
    *m = larger;
    return 0;
}

int gb_map_put(struct gb_map *m, uintptr_t a, uintptr_t b, uintptr_t value)
{
    if (m->count >= m->room - m->room / 4 && grow(m))
        return -ENOMEM;
    struct gb_map_entry *e = slot(m, a, b);
    m->count += !e->a;
    *e = (struct gb_map_entry){a, b, value};
    return 0;
}

void gb_map_done(struct gb_map *m)
{
    free(m->entries);
    *m = (struct gb_map){0};
}
