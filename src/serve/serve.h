/* The supervisor: `glovebox serve`. It reads the configuration, opens what needs opening, starts the four
 * processes that do the work, and watches over them. It parses nothing that a caller sends.
 *
 *   listen.c    listening sockets           state.c     directories and the lock
 *   diag.c      who is behind a connection  delegate.c  the cgroup that systemd handed us
 *   child.c     one process                 life.c      all of them: start, death, restart, stop
 *   reload.c    SIGHUP                      notify.c    what systemd is told
 */
#pragma once

#include "base/err.h"
#include "config/config.h"

#include <stddef.h>

struct gb_serve_options {
    const char *file; /* NULL: where gb_config_load looks */
    const struct gb_config_override *overrides;
    size_t override_count;
    /* Starts one box as the launcher would, to see that this host can. "" stands for none. */
    int (*try_box)(const struct gb_limits *limits, const char *cgroup_parent, const char *allow_degraded,
                   struct gb_err *err);
};

/* Serves until it is told to stop (SIGTERM, SIGINT); SIGHUP loads the configuration anew. The banner goes to
 * standard output, everything else to the log. 0, or negative: it could not start, or not go on. */
int gb_serve(const struct gb_serve_options *options, struct gb_err *err);
