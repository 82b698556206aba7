#include "serve/listen.h"

#include "base/auto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BACKLOG 4096

static const char *path_of(const struct gb_listen *l)
{
    return ((const struct sockaddr_un *)(const void *)&l->address.addr)->sun_path;
}

static struct sockaddr *name_of(struct gb_listen *l)
{
    return (struct sockaddr *)&l->address.addr;
}

static void write_text(struct gb_listen *l)
{
    const struct sockaddr_in *in = (const void *)&l->address.addr;
    const struct sockaddr_in6 *in6 = (const void *)&l->address.addr;
    char host[INET6_ADDRSTRLEN] = "";
    if (l->address.addr.ss_family == AF_UNIX)
        snprintf(l->text, sizeof(l->text), "unix:%s", path_of(l));
    else if (l->address.addr.ss_family == AF_INET6)
        snprintf(l->text, sizeof(l->text), "[%s]:%u",
                 inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host)), ntohs(in6->sin6_port));
    else
        snprintf(l->text, sizeof(l->text), "%s:%u", inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host)),
                 ntohs(in->sin_port));
}

/* --- TCP --- */

static int open_tcp(struct gb_listen *l, struct gb_err *err)
{
    const int one = 1;
    const int family = l->address.addr.ss_family;
    AUTO_FD fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
        (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one))))
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "make a socket for %s", l->text);
    if (bind(fd, name_of(l), l->address.len) || listen(fd, BACKLOG)) {
        const int e = errno;
        const char *port = strrchr(l->text, ':') + 1;
        gb_err_set(err, GB_ERR_BUSY, e, "cannot listen on %s", l->text);
        if (e == EADDRINUSE)
            gb_err_hint(err,
                        "another program does, perhaps another glovebox serve; `ss -ltnp sport = :%s` as "
                        "root shows which; --listen takes another address, port 0 any free one",
                        port);
        else if (e == EADDRNOTAVAIL)
            gb_err_hint(err, "this host has no such address (`ip address` lists them)");
        else if (e == EACCES)
            gb_err_hint(err, "ports below 1024 are root's");
        return -e;
    }
    if (getsockname(fd, name_of(l), &l->address.len))
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "ask which port %s is", l->text);
    l->fd = TAKE_FD(fd);
    return 0;
}

/* --- unix --- */

/* Nobody else may be able to put something else in the path's place between two looks at it. */
static int check_parent(const char *path, struct gb_err *err)
{
    char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct stat st;
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (stat(dir, &st))
        return gb_err_set(err, GB_ERR_INPUT, errno, "directory of the socket %s", path);
    const bool others = st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || others)
        return gb_err_set(err, GB_ERR_INPUT, 0,
                          "directory of the socket %s: it must be yours or root's, and others must not be "
                          "able to change it",
                          path);
    return 0;
}

/* Makes way for the socket. Should: remove what a service of ours that was killed has left. Must not: remove
 * anything else, nor the socket of a service that is alive. */
static int clear_path(struct gb_listen *l, struct gb_err *err)
{
    const char *path = path_of(l);
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : gb_err_set(err, GB_ERR_INPUT, errno, "look at %s", path);
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return gb_err_set(err, GB_ERR_INPUT, EEXIST,
                          "cannot listen on %s: something is there that is no socket of ours", l->text);
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "make a socket");
    if (!connect(fd, name_of(l), l->address.len) || errno != ECONNREFUSED)
        return gb_err_set(err, GB_ERR_BUSY, EADDRINUSE,
                          "cannot listen on %s: another program does; `ss -lxp` as root shows which",
                          l->text);
    if (unlink(path))
        return gb_err_set(err, GB_ERR_INPUT, errno, "remove the dead socket %s", path);
    return 0;
}

static int open_unix(struct gb_listen *l, struct gb_err *err)
{
    const char *path = path_of(l);
    int r = check_parent(path, err);
    if (!r)
        r = clear_path(l, err);
    if (r)
        return r;
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "make a socket");
    /* Born with its mode: between bind and a later chmod there would be a moment with another one. */
    const mode_t before = umask(0111);
    r = bind(fd, name_of(l), l->address.len) ? errno : 0;
    umask(before);
    if (r || lstat(path, &l->made) || listen(fd, BACKLOG))
        return gb_err_set(err, GB_ERR_BUSY, r ? r : errno, "cannot listen on %s", l->text);
    l->fd = TAKE_FD(fd);
    return 0;
}

int gb_listen_open(const char *text, struct gb_listen *ret, struct gb_err *err)
{
    struct gb_listen l = {.fd = -1};
    int r = gb_config_parse_address(text, &l.address, err);
    if (r)
        return r;
    write_text(&l);
    r = (l.address.addr.ss_family == AF_UNIX ? open_unix : open_tcp)(&l, err);
    if (r)
        return r;
    write_text(&l);
    *ret = l;
    return 0;
}

/* Listens, where we said that we do? (A port that the kernel chose is lost with a shutdown.) */
static bool is_sound(const struct gb_listen *l)
{
    struct pollfd p = {.fd = l->fd};
    struct sockaddr_storage now = {0};
    socklen_t len = sizeof(now);
    if (l->address.addr.ss_family != AF_UNIX && listen(l->fd, BACKLOG))
        return false;
    return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR)) &&
           !getsockname(l->fd, (struct sockaddr *)&now, &len) && len == l->address.len &&
           !memcmp(&now, &l->address.addr, len);
}

int gb_listen_mend(struct gb_listen *l, struct gb_err *err)
{
    char text[sizeof(l->text)];
    if (is_sound(l))
        return 0;
    snprintf(text, sizeof(text), "%s", l->text);
    gb_listen_close(l);
    return gb_listen_open(text, l, err);
}

void gb_listen_close(struct gb_listen *l)
{
    struct stat st;
    if (l->fd < 0)
        return;
    const char *path = path_of(l);
    if (l->address.addr.ss_family == AF_UNIX && !lstat(path, &st) && st.st_ino == l->made.st_ino &&
        st.st_dev == l->made.st_dev)
        unlink(path);
    close(TAKE_FD(l->fd));
}
