/* The one socket pair between supervisor and box. Set-up speaks first, then init, which inherits it. */
#pragma once

#include "init/report.h"
#include "sandbox/box.h"

/* What comes with READY: the scratch file system; from a box that a zygote bears also PID 1, and the mount
 * namespace if the kernel hands it out. */
enum gb_ready_fd { GB_READY_SCRATCH, GB_READY_INIT, GB_READY_MOUNTS, GB_REPORT_FDS };

int gb_channel_open(struct gb_box *box, struct gb_err *err);
/* Supervisor side: sends what could be made while the box set itself up: its pipes, init's image, the way
 * into its cgroup. */
int gb_channel_equip(struct gb_box *box, struct gb_err *err);
/* Box side: takes that, if it has not been taken yet. */
int gb_channel_take_equipment(struct gb_box *box);
/* Box side. */
int gb_channel_await(struct gb_box *box, char what);
int gb_channel_report(struct gb_box *box, enum gb_report_kind kind, const struct gb_err *err);
int gb_channel_ready(struct gb_box *box, const int *fds, unsigned count, struct gb_err *err);
/* One message with descriptors, over any such socket. 0 or a negative errno. */
int gb_channel_send(int socket, const void *data, size_t len, const int *fds, unsigned fd_count);
/* Supervisor side: one report, with the descriptors that it carries (-1 in place of others). -EPIPE when the
 * box is gone. */
int gb_channel_receive(struct gb_box *box, struct gb_report *ret_report, int ret_fds[GB_REPORT_FDS]);
