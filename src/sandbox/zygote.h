/* Zygotes: processes that bear boxes.
 *
 * A zygote lives in namespaces of its own, whose root is already that of a box: read-only, the host's files
 * gone. What boxes share and cannot change is made once, there. It can be an interpreter that is warm: then
 * so is each box. Who wants boxes gets a clone of it, a cradle, which makes what boxes can have one after the
 * other; a box is a clone of that, and makes the rest for itself (steps.c, column `warm`).
 *
 * It runs no code of a call, holds no secret, and hears one kind of message, of fixed size. Over its own user
 * namespace, and so over its boxes, it has all rights; on the host none. When it dies, all its boxes do: it
 * is PID 1 of the pid namespace above theirs. */
#pragma once

#include "sandbox/box.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Beside the range that boxes lease from; see userns.c. */
#define GB_ZYGOTE_UID 2000065540U

/* Descriptors of a zygote that was executed. */
#define GB_ZYGOTE_NAME "glovebox-zygote" /* in a list of processes */
enum { GB_ZYGOTE_SOCKET = 3, GB_ZYGOTE_PROC };

struct gb_zygote_spec {
    const char *program;         /* an interpreter that becomes the zygote, with `files`; NULL: none */
    const char *script;          /* its one argument */
    const struct gb_file *files; /* in its /sandbox, which no box sees */
    size_t file_count;
    const char *const *ahead; /* argv of what is started in each box before its call comes; NULL: nothing */
    const struct gb_file *shown; /* in /etc/glovebox of each box */
    size_t shown_count;
    const char *degraded; /* as in struct gb_spec */
};

struct gb_zygote {
    pid_t pid;
    int pidfd, socket;         /* -1: there is none */
    struct gb_receipt receipt; /* of what it has done for all its boxes */
};

/* Starts one. It takes births as soon as it is warm; until then they wait in the socket. */
int gb_zygote_start(const struct gb_zygote_spec *spec, struct gb_zygote *ret, struct gb_err *err);
/* It bears no more, and ends when its last box has ended. The process is still to be waited for. */
void gb_zygote_retire(struct gb_zygote *z);
/* Asks for a box: what gb_launch does if box->zygote is set. */
int gb_zygote_ask(struct gb_box *box, struct gb_err *err);

/* --- in the zygote --- */

struct gb_nursery {
    int socket, proc_fd, image_fd;
    const char *const *ahead;
    /* In PID 1 of a new box, when all steps are done: forks what waits there, and returns its pid and the
     * pipe to it. NULL: glovebox-init is executed. */
    long (*born)(int *ret_control);
};

/* Bears boxes until there is nobody left to ask for one and the last has ended: false. True: in a process
 * that `born` has forked. */
bool gb_nursery_serve(struct gb_nursery *n);
