/* glovebox-broker: does the calls of tools that are no box: SQL, HTTP, mail.
 *
 *   main.c        the parent: messages, how many at once, its end. It parses nothing
 *   generation.c  the configurations under which calls may have been decided, by the hash of their bytes
 *   call.c        one call as the parent sees it: a process, a socket, a clock
 *   child.c       the process of a call: configuration, confinement, arguments, the work, the answer
 *   kind.c        the kinds of tools, and what each may touch
 *   tool.h        what a kind of tool does: sql*.c, http.c, email.c and what these share
 *
 * Names in this folder are static or start with the file's name: it is a program, not a library. */
#pragma once

#include "base/loop.h"
#include "broker/call.h"
#include "broker/generation.h"
#include "wire/msg.h"

struct broker {
    pid_t pid;
    struct gb_loop *loop;
    struct gb_source control, front;
    struct gb_msg_broker limits;
    struct generations generations;
    struct call *calls; /* that have a process */
    unsigned running;   /* how many these are */
    struct call *held;  /* waits for a place; until then the front is not read from */
    struct gb_timer hold;
    bool stopping; /* take nothing new, and end with the last call */
    struct gb_msg msg;
};

/* A call has ended: its place is free. The call is gone. */
void broker_ended(struct broker *b);
