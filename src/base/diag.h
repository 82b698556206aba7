/* Who is at the other end of a loopback TCP connection: the kernel's socket diagnostics (NETLINK_SOCK_DIAG)
 * tell the uid that owns the caller's socket. TCP has no SO_PEERCRED; without keys this is what tells the
 * user who started the service from everybody else on the host. */
#pragma once

#include "base/err.h"

#include <sys/socket.h>
#include <sys/types.h>

/* Opens the diagnostics socket of this network namespace, and sees that it answers, and answers right, by
 * asking for the owner of a connection of our own. A descriptor or negative. */
int gb_diag_open(struct gb_err *err);
/* The uid that owns the TCP socket bound to `local` and connected to `remote` (both AF_INET or AF_INET6).
 * 0 or negative: no such connection, or no answer. */
int gb_diag_owner(int fd, const struct sockaddr *local, const struct sockaddr *remote, uid_t *ret_uid);
