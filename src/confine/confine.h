/* How a process of the service gives up what it does not need, in one call at its start. Each program has one
 * row; walls that the host cannot give refuse the start, as in a box. confine.c has the steps, profiles.def
 * the system calls.
 *
 * Call it with one thread, when everything that has to be opened is open. Afterwards end with _exit: what C
 * libraries and sanitizers do at exit may need calls that are gone. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Ids for processes of a service that root started: next to the range of the boxes, and in no passwd file. */
#define GB_UID_FRONT  2000065537U
#define GB_UID_STORE  2000065538U
#define GB_UID_BROKER 2000065539U

struct gb_confine {
    const char *name; /* "front", "store", "broker", "launch": the row of confine/profiles.def */
    bool keep_root;   /* the launcher: stays who it is, with few capabilities */
    bool keep_host; /* the broker: the host's network and files stay in view, as far as its uid may use them,
                     * and it may fork. Its children need parts of that, and each gives up the rest (narrow.h)
                     */
    uid_t uid;      /* as root: become this user, and its group; else: stay */
    int root_fd;    /* as root: this directory becomes the whole file system, and the descriptor is the new
                     * root's; -1: an empty one. For the launcher and the broker: ignored */
    int rw_fd; /* root_fd again: landlock leaves this directory open, and it is the new working directory;
                * -1: none, and / */
    unsigned open_files;  /* RLIMIT_NOFILE, if the hard limit allows as many; 0: as it is */
    const char *degraded; /* comma list of layers that may be missing here, or NULL; landlock is one */
};

/* parent: the supervisor's pid, to notice that it died before we could ask to die with it. The error names
 * the step. */
int gb_confine_enter(const struct gb_confine *c, pid_t parent, struct gb_err *err);
