/* Listening sockets, made once by the supervisor and handed to every front that it starts: while a front is
 * restarted, callers wait in the kernel's queue and are not refused. */
#pragma once

#include "base/err.h"
#include "config/config.h"

#include <sys/stat.h>

struct gb_listen {
    int fd;
    struct gb_config_address address; /* as bound: with the port that the kernel chose if 0 was asked for */
    char text[160];                   /* "127.0.0.1:8640", "[::1]:8640" or "unix:/path" */
    struct stat made;                 /* unix: the path as we made it, so that only that is removed */
};

/* Binds and listens; non-blocking, close-on-exec. A unix socket replaces only a socket of ours that nobody
 * listens on any more. It is open to every user of the host (0666): who may call is decided by key or by the
 * peer's uid, and the directory above can say more. Release with gb_listen_close. */
int gb_listen_open(const char *text, struct gb_listen *ret, struct gb_err *err);
/* Before it is handed to another front: the one before may have been captured and have shut it down. TCP
 * listens again; a unix socket cannot, and is made anew. */
int gb_listen_mend(struct gb_listen *l, struct gb_err *err);
/* Closes; a unix socket's path is removed if it is still the one that we made. */
void gb_listen_close(struct gb_listen *l);
