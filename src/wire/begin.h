/* How a process of the service begins: started by the supervisor with one descriptor, over which it is told
 * the rest. */
#pragma once

#include "wire/msg.h"

#define GB_CONTROL 3 /* the descriptor number of the channel to the supervisor */

/* Ignores the signals that are for the supervisor (a Ctrl-C or a service manager's, sent to a whole group),
 * waits for the message of this kind, which says how to start, and makes the channel and all that came with
 * it non-blocking and close-on-exec. 0, or negative: nobody started us. Release msg with gb_msg_done. */
int gb_begin_receive(const char *name, enum gb_msg_kind kind, struct gb_msg *ret_msg);
