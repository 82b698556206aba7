/* One box, seen from the front: asked for at the launcher, its output collected and sanitised as it comes,
 * its end awaited. tool.c uses the socket of it for a call of the broker. */
#pragma once

#include "front/front.h"
#include "wire/msg.h"

struct run {
    struct gb_source socket;    /* the run's own, to its keeper */
    struct gb_source stream[2]; /* stdout, stderr */
    struct gb_redact *redact[2];
    uint64_t seen[2];     /* bytes as the program wrote them */
    struct gb_buf raw[2]; /* the same, if the caller may see them */
    uint64_t pool;        /* key of the kind of box that it wants; 0: any that is built for it */
    bool paused;
    bool reports;       /* stderr begins with the report of our start-up code, and that has not come yet */
    bool unreported;    /* it has not come at all: stderr began otherwise, or there was none */
    struct gb_buf head; /* as much of it as has come */
};

struct call;

/* Asks for the box. On failure nothing is left of it and err says why. */
int run_start(struct call *call, bool probe, struct gb_err *err);
/* The box is to be ended; its result still comes. */
void run_cancel(struct call *call);
/* A slow reader: stop or go on taking output. */
void run_pause(struct call *call, bool pause);
/* From now on output is taken as it comes. */
void run_done(struct call *call);
