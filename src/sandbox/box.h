/* One box from before its birth to after its death. The supervisor owns it; the set-up code in the new
 * namespaces works on its own copy, which the fork made. */
#pragma once

#include "sandbox/cgroup.h"
#include "spec/result.h"
#include "spec/spec.h"

#include <sys/types.h>

#define GB_BOX_BUFFER ((size_t)128 * 1024)

struct gb_zygote;

struct gb_box {
    const struct gb_spec *spec;
    const struct gb_zygote *zygote; /* that bears it; NULL: it is cloned from the supervisor */
    bool warm;                      /* borne by a zygote, or itself one: which column of the steps counts */
    int cradle_fd;    /* to who bears it, and has borne those before; -1: the zygote makes one */
    bool born_inside; /* in its cgroup (v2), which then must be there before it */
    struct gb_receipt receipt;
    struct gb_cgroup cgroup;

    /* who the box is on the host; inside a zygote: in its user namespace */
    uid_t host_uid;
    gid_t host_gid;
    int lease_fd; /* holds the uid while the box lives; -1 if the box runs under our own */

    /* supervisor's side */
    pid_t init_pid;
    int init_fd;                      /* pidfd */
    int channel, stdin_fd, out_fd[2]; /* our ends; out_fd is stdout, stderr */
    int scratch_fd;                   /* root of the box's writable file system */
    int mounts_fd, past_mounts_fd;    /* its mount namespace, and that of the one before; -1: not ours */

    int64_t cpu_before_us; /* that was used before the call came */
    bool unheard;          /* it has ended before it took what it was told last */
    char *buffer;          /* GB_BOX_BUFFER bytes for the streams */

    /* ends that the box inherits, or is sent while it sets itself up */
    int box_channel, box_stdio[3];
    int image_fd;    /* glovebox-init */
    bool unequipped; /* box side: what is sent has not been taken yet */
    bool leased;     /* box side: the supervisor holds a uid for it */

    /* used while setting up */
    int proc_fd, source_fd, root_fd; /* host's /proc; where system directories come from; the new root */
    int mount_fd[GB_MOUNTS];         /* directories that the operator named */
    int net_fd;                      /* the network namespace, when it is there */
    long net_pid;                    /* who makes it; negative: why nobody does */
};

void gb_box_init(struct gb_box *box, const struct gb_spec *spec);
/* Closes the ends that only the box needs. */
void gb_box_close_ends(struct gb_box *box);
/* Closes what is left open of it but the cgroup, the uid and the buffer, which can serve another box, and the
 * mounts, which take their time. */
void gb_box_close(struct gb_box *box);
/* Closed, it becomes the next one, and keeps what can serve that. */
void gb_box_again(struct gb_box *box, const struct gb_spec *spec);
/* Closes all of that and removes the cgroup; the box must be dead. */
void gb_box_done(struct gb_box *box);
