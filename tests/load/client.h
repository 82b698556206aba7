/* What the load programs share: connecting, and time. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline void die(const char *what)
{
    perror(what);
    exit(2);
}

static inline int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline long number(const char *text, long least)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least) {
        fprintf(stderr, "'%s' is no number from %ld on\n", text, least);
        exit(2);
    }
    return value;
}

static inline struct sockaddr_in address(const char *host, const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(port, 1))};
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
        die(host);
    return a;
}

/* Connected and then non-blocking, or -1. On loopback a connection that the kernel can queue is made at once.
 */
static inline int dial(const struct sockaddr_in *a)
{
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct timeval wait = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    if (connect(fd, (const struct sockaddr *)a, sizeof(*a))) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline void allow_descriptors(rlim_t count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        die("getrlimit");
    if (limit.rlim_cur < count) {
        limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit))
            die("setrlimit");
    }
}
