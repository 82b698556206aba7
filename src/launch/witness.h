/* The second witness of a launch, beside the front's own records: no box exists before the store has said
 * that its LAUNCH record is on disk. So not even a captured front that records nothing itself gets a box that
 * leaves no trace.
 *
 * Until then the run waits here. The store answers each record once, in the order in which they came, so that
 * those who wait are a ring: the tag of a record is its number, and an answer with any other tag than the
 * next is not the store's. */
#pragma once

#include "launch/run.h"

#include <stdbool.h>

#define GB_WITNESS_RUNS 64 /* records without an answer. Each run holds up to five descriptors open */

struct gb_witness {
    int store; /* its channel; -1: gone, and nothing can be recorded any more */
    /* The store has spoken, or has had its time: an err of GB_ERR_NONE says that the record is on disk. */
    void (*settled)(struct gb_run *run, const struct gb_err *err);
    uint64_t sent, answered; /* records */
    uint64_t settled_to;     /* from answered to here: given up, and an answer is still to come */
    struct {
        struct gb_run run;
        int64_t until_us;
    } ring[GB_WITNESS_RUNS];
    struct gb_msg msg;
};

/* Writes the record of the run and keeps it, with its descriptors, until it is settled. After an error it is
 * still the caller's. */
int gb_witness_tell(struct gb_witness *w, struct gb_run *run, struct gb_err *err);
/* Takes one answer from the store. 0, -EAGAIN, -EPROTO if what came is none, or another negative errno: the
 * store is gone, and every run that waited was settled so. */
int gb_witness_hear(struct gb_witness *w);
/* Settles those whom the store has let wait too long. */
void gb_witness_expire(struct gb_witness *w);
/* When to call that next, as gb_clock_us; INT64_MAX: nobody waits. */
int64_t gb_witness_next_us(const struct gb_witness *w);
/* Runs that wait. */
unsigned gb_witness_waiting(const struct gb_witness *w);
/* No room for another: the store has too many answers to give. */
bool gb_witness_is_full(const struct gb_witness *w);
