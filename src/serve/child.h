/* The programs that the supervisor starts, one process each. */
#pragma once

#include "base/err.h"
#include "base/loop.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* In the order in which they are started; they are stopped in the other. */
enum gb_child_index { GB_CHILD_STORE, GB_CHILD_LAUNCH, GB_CHILD_BROKER, GB_CHILD_FRONT, GB_CHILDREN };

struct gb_service;

struct gb_child {
    struct gb_service *service;
    const char *name; /* as in wire/msg.def */
    char program[PATH_MAX];
    pid_t pid; /* 0: not running */
    bool ready;
    struct gb_source channel; /* fd -1: none */
    struct gb_timer hung_up;  /* until when it may live without its channel */
};

/* Names the children and finds their programs: beside our own in a build tree, in ../libexec/glovebox where
 * we are installed. */
int gb_child_find_all(struct gb_child children[GB_CHILDREN], struct gb_err *err);
/* Starts the program with descriptors 0 and 1 on /dev/null, our standard error, and descriptor 3, the other
 * end of c->channel.fd; in a session of its own, so that Ctrl-C on a terminal reaches us alone; in the
 * directory cwd_fd, or the root for -1. It dies with us. */
int gb_child_start(struct gb_child *c, int cwd_fd, struct gb_err *err);
/* The child is gone: forgets pid and channel. */
void gb_child_forget(struct gb_child *c, struct gb_loop *loop);
/* "exit code 1", "signal 9 (Killed)". Returns buf. */
const char *gb_child_describe(int wait_status, char *buf, size_t size);
