/* Test builds only: runs every box the way a pool does, from a zygote and with a wait, wherever a box is run.
 * So each test of a box, each probe and each mutant, is one of that path too. GLOVEBOX_TEST_PATH:
 *
 *   plain    a zygote whose boxes execute what comes
 *   python   one whose boxes are warm; GLOVEBOX_TEST_WARM is the directory with its main.py, which executes
 *            what is no script, and the extension
 *   pooled   a plain one, and the box is its third: with the uid, the cgroup and the cradle that boxes before
 *            it have used and left in disorder (by the code in GLOVEBOX_TEST_NOISE, if that is set)
 *
 * GLOVEBOX_TEST_ZYGOTE names the socket of a nursery (tests/escape/nursery.c), whose zygote is asked instead
 * of one of its own: so boxes of several callers can meet. GLOVEBOX_TEST_PAYLOAD names a file whose bytes are
 * sent to PID 1 unchecked, in place of the call. */
#pragma once

#include "backend/backend.h"
#include "sandbox/zygote.h"

bool gb_rehearsal_wanted(void);
/* Starts the zygote that GLOVEBOX_TEST_PATH says. */
int gb_rehearsal_zygote(const char *degraded, struct gb_zygote *ret, struct gb_err *err);
/* What a nursery lends: its zygote, and a uid and a cradle that somebody had before. Between processes. */
struct gb_loan {
    struct gb_zygote zygote;
    uid_t uid;
    int lease_fd, cradle_fd; /* -1: none */
};
int gb_rehearsal_send(int socket, const struct gb_loan *loan);
int gb_rehearsal_receive(int socket, struct gb_loan *ret);
int gb_rehearsal_run(const struct gb_spec *spec, gb_backend_output_fn *on_output, void *context,
                     struct gb_result *result, struct gb_err *err);
