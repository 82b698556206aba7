/* A call's life, from a request that was read to a reply that is out:
 *
 *   call_begin  -> decided (decide.c) -> INTENT sent
 *   INTENT      -> acknowledged; refused, or a person must agree, or a slot is free, or it waits for one
 *   APPROVAL    -> a person has agreed or not, or it took too long; it holds no slot, nor a place in a queue
 *   WAITING     -> a slot came free, or it waited too long
 *   RUNNING     -> the box has ended, or the broker has answered
 *   OUTCOME     -> acknowledged; replied; gone
 *
 * A client that leaves, or a cancel, moves it towards OUTCOME from wherever it is. Each call has one intent
 * and one outcome, whatever happens to it. */
#pragma once

#include "front/audit.h"
#include "front/conn.h"
#include "front/request.h"
#include "front/run.h"

enum call_state { CALL_INTENT, CALL_APPROVAL, CALL_WAITING, CALL_RUNNING, CALL_OUTCOME };
enum call_stream { STREAM_NONE, STREAM_SSE, STREAM_NDJSON };
/* What the intent says. ASK: a person must agree first. */
enum call_decision { CALL_ALLOW, CALL_BLOCK, CALL_ASK };

struct approval;

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
    const char *route; /* by which it came, for the record */
    bool seeds;        /* POST /execute, as the seeds have it */
    bool probe, cancelled, ran, has_slot, counted, by_unix;
    enum call_stream stream;
    struct request request;
    size_t held; /* its part of front->held */

    /* who, tool and profile live as long as `policy` */
    const struct gb_principal *who;
    const struct gb_tool *tool; /* NULL: a probe */
    const struct gb_profile *profile;
    struct gb_denial denials[GB_DENIALS]; /* every refusal ends here, whoever refused */
    size_t denial_count;
    enum call_decision decision; /* as it was recorded in the intent */
    bool asks;                   /* a person must agree: it waits for that, or is answered as pending */
    struct approval *approval;   /* that it waits for or uses; approval.c's */
    char arguments_sha256[65];
    char definition[65];   /* of the tool: gb_policy_definition */
    bool budgeted, paused; /* budget.c's, as is the next: what it may cost, for as long as it runs */
    int64_t set_aside_ms, budget_day; /* of cpu time; when it was taken */
    struct gb_finding findings[GB_FINDINGS];
    size_t finding_count;

    struct run run;
    struct gb_result result;
    char kill_reason[16];
    char (*skipped)[96]; /* texts for result.files */
    char *enforced;      /* the receipt as JSON */
    json_t *answer;      /* of the broker, sanitised; NULL if there is none */
    struct gb_buf reply; /* made while its record is written; given out when that is done */
    uint64_t redactions;
    struct gb_err err; /* why nothing was run */
    size_t sent[2];    /* bytes of each stream that went into events */

    struct audit_wait wait;
    /* The answer to the intent is not waited for: the store has it before the launcher's own record, and
     * without that one nothing is run. */
    bool unawaited, unrecorded; /* and it could not be stored */
    uint64_t intent_tag;
    struct gb_timer timer; /* waited long enough; or time for a sign of life */
    struct idem_entry *idem;
    int64_t start_us;
};

/* The request is complete and authenticated: makes a call of it, or replies why not. */
void call_begin(struct conn *c, const char *route);
/* A box with nothing in it, to see that one can be started; replies 200 or 503. */
void call_probe(struct conn *c);
struct call *call_find(struct front *f, const char *id, const char *principal);
void call_cancel(struct call *call);
/* approval.c: a person has decided, or nobody did in time (then denials were added); or the question is out,
 * for a call that does not wait. The record of it is acknowledged. */
void call_decided(struct call *call, bool granted);
/* The service goes down: nobody can agree any more. */
void call_stop_waiting(struct front *f);

/* Events. */
void call_client_left(struct call *call);
void call_client_reads(struct call *call);
void call_output(struct call *call);
void call_ran(struct call *call, const struct gb_err *err);
/* An intent that was not waited for could not be stored. */
void call_unrecorded(struct front *f, uint64_t tag, const struct gb_err *err);
/* A slot is free: from sched.c. */
void call_start(struct call *call);

/* Does it run in a box, or at the broker? */
static inline bool call_is_boxed(const struct call *call)
{
    return !call->tool || call->tool->kind == GB_TOOL_CODE || call->tool->kind == GB_TOOL_COMMAND;
}
