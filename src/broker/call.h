/* One call as the broker's parent sees it: what was asked, the process that does it, and when that must end.
 */
#pragma once

#include "base/loop.h"
#include "wire/msg.h"

#include <sys/types.h>

enum call_end { CALL_RUNS, CALL_LEFT, CALL_LATE }; /* why the process was killed, if it was */

struct call {
    struct broker *broker;
    struct call *next, **link;
    uint64_t tag;
    struct gb_msg_tool ask;
    int arguments;            /* a memory file with JSON */
    struct gb_source socket;  /* to the front; anything readable, or a hang-up: nobody waits any more */
    struct gb_source process; /* a pidfd */
    struct gb_timer deadline;
    pid_t pid;
    enum call_end end;
};

/* Takes body and descriptors of a TOOL message. NULL: out of memory, or the first descriptor is not a socket
 * for messages (*ret_broken), which an honest front never sends. */
struct call *call_take(struct broker *b, struct gb_msg *msg, bool *ret_broken);
/* Answers that it could not be done, and frees the call. */
void call_refuse(struct call *call, const struct gb_err *err);
/* Starts the process. The call frees itself when that has ended, after broker_ended(). On failure it is as it
 * was. */
int call_start(struct call *call, int config_fd, struct gb_err *err);
/* Kills the process. */
void call_cancel(struct call *call);
