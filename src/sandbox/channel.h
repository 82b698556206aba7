/* The one socket pair between supervisor and box. Set-up speaks first, then init, which inherits it. */
#pragma once

#include "init/report.h"
#include "sandbox/box.h"

int gb_channel_open(struct gb_box *box, struct gb_err *err);
/* Supervisor side: sends what could be made while the box set itself up: its pipes, init's image, the way
 * into its cgroup. */
int gb_channel_equip(struct gb_box *box, struct gb_err *err);
/* Box side: takes that, if it has not been taken yet. */
int gb_channel_take_equipment(struct gb_box *box);
/* Box side. */
int gb_channel_await(struct gb_box *box, char what);
int gb_channel_report(struct gb_box *box, enum gb_report_kind kind, int fd, const struct gb_err *err);
/* One message with descriptors, over any such socket. 0 or a negative errno. */
int gb_channel_send(int socket, const void *data, size_t len, const int *fds, unsigned fd_count);
/* Supervisor side: one report, with a descriptor if it carries one (else -1). -EPIPE when the box is gone. */
int gb_channel_receive(struct gb_box *box, struct gb_report *ret_report, int *ret_fd);
