/* A call's life, from a request that was read to a reply that is out:
 *
 *   call_begin  -> screened -> INTENT sent
 *   INTENT      -> acknowledged; a slot is free, or it waits for one
 *   WAITING     -> a slot came free, or it waited too long
 *   RUNNING     -> the box has ended
 *   OUTCOME     -> acknowledged; replied; gone
 *
 * A client that leaves, or a cancel, moves it towards OUTCOME from wherever it is. Each call has one intent
 * and one outcome, whatever happens to it. */
#pragma once

#include "front/audit.h"
#include "front/conn.h"
#include "front/request.h"
#include "front/run.h"

enum call_state { CALL_INTENT, CALL_WAITING, CALL_RUNNING, CALL_OUTCOME };
enum call_stream { STREAM_NONE, STREAM_SSE, STREAM_NDJSON };

struct call {
    struct front *front;
    struct policy *policy;
    struct conn *conn; /* NULL when the client has left */
    struct call *next, *prev, *wait_next;
    enum call_state state;
    char id[GB_ID_CHARS + 1];
    char request_id[GB_ID_CHARS + 1];
    char principal[64];
    struct usage *user;
    bool seeds; /* POST /execute, as the seeds have it */
    bool probe, cancelled, ran, has_slot, by_unix;
    enum call_stream stream;
    struct request request;
    size_t held; /* its part of front->held */

    struct gb_finding findings[GB_FINDINGS];
    size_t finding_count;
    bool blocked;

    struct run run;
    struct gb_result result;
    char kill_reason[16];
    char (*skipped)[96]; /* texts for result.files */
    char *enforced;      /* the receipt as JSON */
    uint64_t redactions;
    struct gb_err err; /* why nothing was run */
    size_t sent[2];    /* bytes of each stream that went into events */

    struct audit_wait wait;
    struct gb_timer timer; /* waited long enough; or time for a sign of life */
    struct idem_entry *idem;
    int64_t start_us;
};

/* The request is complete and authenticated: makes a call of it, or replies why not. */
void call_begin(struct conn *c, bool seeds);
/* A box with nothing in it, to see that one can be started; replies 200 or 503. */
void call_probe(struct conn *c);
struct call *call_find(struct front *f, const char *id, const char *principal);
void call_cancel(struct call *call);

/* Events. */
void call_client_left(struct call *call);
void call_client_reads(struct call *call);
void call_output(struct call *call);
void call_ran(struct call *call, const struct gb_err *err);
/* A slot is free: from sched.c. */
void call_start(struct call *call);
