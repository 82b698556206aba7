#include "serve/notify.h"

#include "base/auto.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void gb_notify(const char *fmt, ...)
{
    const char *where = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[512];
    va_list ap;
    const size_t len = where ? strlen(where) : 0;
    if (len < 2 || len >= sizeof(to.sun_path) || (where[0] != '/' && where[0] != '@'))
        return;
    memcpy(to.sun_path, where, len);
    if (where[0] == '@')
        to.sun_path[0] = '\0'; /* an abstract socket */
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}
