#include "schema/run.h"

#include <stdlib.h>

size_t gb_seen_words(const struct gb_seen *seen)
{
    return (seen->count + 63) / 64;
}

bool gb_seen_init(struct gb_run *run, struct gb_seen *seen, const json_t *value)
{
    *seen = (struct gb_seen){.count = json_is_object(value) ? json_object_size(value)
                                                            : json_array_size(value)};
    if (seen->count <= 64)
        return true;
    seen->bits = calloc(gb_seen_words(seen), sizeof(uint64_t));
    return gb_eval_spend(run, gb_seen_words(seen)) &&
           (seen->bits || gb_eval_stop(run, "there is not enough memory"));
}

void gb_seen_done(struct gb_seen *seen)
{
    free(seen->bits);
    seen->bits = NULL;
}

static uint64_t *words(struct gb_seen *seen)
{
    return seen->bits ? seen->bits : &seen->few;
}

void gb_seen_add(struct gb_seen *seen, size_t index)
{
    if (seen)
        words(seen)[index / 64] |= (uint64_t)1 << index % 64;
}

void gb_seen_add_all(struct gb_seen *seen)
{
    for (size_t i = 0; seen && i < gb_seen_words(seen); i++)
        words(seen)[i] = UINT64_MAX;
}

void gb_seen_merge(struct gb_seen *seen, const struct gb_seen *more)
{
    for (size_t i = 0; seen && i < gb_seen_words(seen); i++)
        words(seen)[i] |= more->bits ? more->bits[i] : more->few;
}

bool gb_seen_has(const struct gb_seen *seen, size_t index)
{
    return (seen->bits ? seen->bits[index / 64] : seen->few) >> index % 64 & 1;
}
