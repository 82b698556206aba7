/* A run as the launcher and its keepers hold it, and what the front is told of it. */
#pragma once

#include "spec/result.h"
#include "wire/msg.h"

/* Descriptors of a RUN message, in this order. */
enum gb_run_fd { GB_RUN_SOCKET, GB_RUN_PAYLOAD, GB_RUN_STDIN, GB_RUN_FDS };

struct gb_run {
    uint64_t tag;
    struct gb_msg_run ask;
    struct gb_msg_ceiling ceiling; /* that it was held against: a new one changes nothing for this run */
    int fd[GB_RUN_FDS];
    unsigned fd_count;
};

/* Takes body and descriptors of a RUN message. Release with gb_run_drop. */
void gb_run_take(struct gb_msg *msg, struct gb_run *ret);
/* Tells the front where the output comes from; the two descriptors are closed. */
int gb_run_tell_output(const struct gb_run *run, int fds[2]);
/* Has the front hung up? Then nobody wants it any more. */
bool gb_run_is_left(const struct gb_run *run);
/* Answers that nothing was run. 0, or negative: the front cannot be told. */
int gb_run_fail(const struct gb_run *run, const struct gb_err *err);
/* Answers with the result, whose files go with it, and with the reading ends of the output unless the front
 * has them (-1). 0, or negative as before. */
int gb_run_answer(const struct gb_run *run, struct gb_result *result, const int out[2]);
void gb_run_drop(struct gb_run *run);
