/* What launcher and waiting keepers know of each other without a word: one page that they share. A keeper
 * says something only if a call waits for its box; so most calls cost no message but the one that brings
 * them. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define GB_SLOTS 2048 /* keepers with a zygote's box */
#define GB_NESTS 32   /* zygotes, retired ones that still have boxes included */

enum gb_slot_state {
    GB_SLOT_FREE,     /* no keeper */
    GB_SLOT_BUILDING, /* its box is being built */
    GB_SLOT_WAITING,
    GB_SLOT_BUSY,   /* a call is with it; only the launcher writes this, and only over WAITING */
    GB_SLOT_ENDING, /* its keeper will have no other */
};

struct gb_slots {
    _Atomic uint32_t pending;         /* calls that wait for a box */
    _Atomic uint32_t state[GB_SLOTS]; /* enum gb_slot_state */
    _Atomic uint64_t born[GB_NESTS];  /* boxes that each zygote was asked for */
    _Atomic uint32_t warm[GB_NESTS];  /* it has borne one: the next takes moments */
};
