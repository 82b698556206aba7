/* crowd: connections that cost a server much and ask for little. One thread.
 *
 *   crowd HOST PORT IDLE SLOW EVERY_MS
 *
 * IDLE connections have made one request and are kept alive. SLOW ones send a request byte by byte, one every
 * EVERY_MS: half of them dawdle over the head, half over the body. Whoever is turned away comes back. Prints
 * "ready" when all are connected, and at the end of its input one line of JSON. */
#include "client.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>

#define BODY "{\"tool_name\":\"execute_code\",\"code\":\"print(2 + 2)                                \"}"

static const char health[] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
static const char execute[] =
        "POST /execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Content-Length: 9999\r\n\r\n" BODY;

struct guest {
    int fd;
    bool slow;
    size_t at; /* next byte of `execute` */
    size_t begin;
};

static struct crowd {
    struct sockaddr_in to;
    int epoll_fd;
    size_t idle, slow;
    int64_t every_us;
    long bytes, replies, returned;
} w;

static void arrive(struct guest *g)
{
    g->fd = dial(&w.to);
    if (g->fd < 0)
        die("connect");
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = g};
    if (fcntl(g->fd, F_SETFL, O_NONBLOCK) || epoll_ctl(w.epoll_fd, EPOLL_CTL_ADD, g->fd, &e))
        die("watch a connection");
    const char *text = g->slow ? execute : health;
    const size_t len = g->slow ? g->begin : strlen(health);
    if (len && send(g->fd, text, len, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        die("send");
    g->at = len;
}

static void hear(struct guest *g)
{
    char text[4096];
    ssize_t n = read(g->fd, text, sizeof(text));
    if (n > 0)
        w.replies++;
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return;
    close(g->fd);
    w.returned++;
    arrive(g);
}

/* One more byte from each of those whose turn it is. The turns are spread over the whole interval: all at
 * once would be a burst of its own. */
static void dawdle(struct guest *guests, int64_t from_us, int64_t to_us)
{
    for (size_t i = 0; i < w.slow; i++) {
        struct guest *g = &guests[w.idle + i];
        const int64_t offset = w.every_us * (int64_t)i / (int64_t)w.slow;
        if ((to_us - offset) / w.every_us == (from_us - offset) / w.every_us)
            continue;
        /* A body that is all sent goes on with blanks: it says that it is longer. */
        const char *byte = g->at < strlen(execute) ? &execute[g->at] : " ";
        if (send(g->fd, byte, 1, MSG_NOSIGNAL) == 1) {
            g->at++;
            w.bytes++;
        }
    }
}

static bool told_to_end(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&p, 1, 0) == 1 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: crowd HOST PORT IDLE SLOW EVERY_MS\n");
        return 2;
    }
    w.to = address(argv[1], argv[2]);
    w.idle = (size_t)number(argv[3], 0);
    w.slow = (size_t)number(argv[4], 0);
    w.every_us = number(argv[5], 1) * 1000;
    allow_descriptors(w.idle + w.slow + 64);
    w.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct guest *guests = calloc(w.idle + w.slow + 1, sizeof(*guests));
    if (w.epoll_fd < 0 || !guests)
        die("start");
    const size_t head = (size_t)(strstr(execute, "\r\n\r\n") + 4 - execute);
    for (size_t i = 0; i < w.idle + w.slow; i++) {
        guests[i].slow = i >= w.idle;
        guests[i].begin = i % 2 ? head : 0;
        arrive(&guests[i]);
    }
    printf("ready\n");
    fflush(stdout);
    for (int64_t last_us = now_us(); !told_to_end();) {
        struct epoll_event e[256];
        const int n = epoll_wait(w.epoll_fd, e, 256, 5);
        for (int i = 0; i < n; i++)
            hear(e[i].data.ptr);
        const int64_t now = now_us();
        dawdle(guests, last_us, now);
        last_us = now;
    }
    printf("{\"idle\":%zu,\"slow\":%zu,\"bytes\":%ld,\"replies\":%ld,\"returned\":%ld}\n", w.idle, w.slow,
           w.bytes, w.replies, w.returned);
    return 0;
}
