#include "wire/id.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

void gb_id_new(char ret_id[GB_ID_CHARS + 1])
{
    struct timespec now;
    uint8_t bytes[16];
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    /* Never shorter than asked for, and never failing once the kernel's pool is ready, which it is long
     * before us. */
    while (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        ;
    for (unsigned i = 0; i < 6; i++)
        bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    /* 128 bits in 26 digits of 5 bits: the first digit has 3 of them. */
    uint32_t bits = 0;
    unsigned have = 2, at = 0;
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bits = bits << 8 | bytes[i];
        for (have += 8; have >= 5; have -= 5)
            ret_id[at++] = digits[bits >> (have - 5) & 31];
    }
    ret_id[at] = '\0';
}

bool gb_id_is_valid(const char *id)
{
    return strlen(id) == GB_ID_CHARS && strspn(id, digits) == GB_ID_CHARS;
}
