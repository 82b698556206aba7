/* bench-load: one HTTP request, again and again, over a number of connections that are kept alive. One
 * thread, three system calls a request: it shares the processors with the service that it measures.
 *
 *   bench-load [-c CONNECTIONS] [-n REQUESTS] [-t MS] [-r RAMP_MS] [-p PAUSE_MS] [-B] [-b BODY] [-e TEXT]
 *              [-o FILE] HOST:PORT|unix:PATH TARGET
 *
 * Each connection sends its next request when the reply to the last is complete (and -p after that), until -n
 * are asked or -t is over. -B: a burst; all connections are open first, then all send. -b: a body makes it a
 * POST. -e: what the body of a good reply has in it. A reply that is not 200, or has it not, and a connection
 * that ends, are failures; the first is shown on standard error, and the exit code is 1. */
#include "times.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define REPLY_MOST  65536
#define ACCEPTED_US 200000 /* before a burst: so that it meets connections that the service has taken */

struct connection {
    int fd;
    size_t got, size; /* size: of the whole reply, 0 while its head is not there */
    size_t body;      /* where it begins */
    int64_t start_us; /* of the request that is under way; 0: none */
    int64_t next_us;  /* when a pause is over; 0: no pause */
    char reply[REPLY_MOST];
};

static struct load {
    struct plan plan;
    struct times times;
    union {
        struct sockaddr any;
        struct sockaddr_in ip;
        struct sockaddr_un path;
    } to;
    socklen_t to_len;
    char *request;
    size_t request_len, expect_len;
    int epoll_fd;
    long asked, under_way;
} l = {.plan = PLAN_DEFAULT};

/* --- connections --- */

static void connect_to_service(struct connection *c)
{
    const int one = 1;
    c->fd = socket(l.to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, &l.to.any, l.to_len))
        die("connect");
    if (l.to.any.sa_family == AF_INET && setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
        die("TCP_NODELAY");
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) || epoll_ctl(l.epoll_fd, EPOLL_CTL_ADD, c->fd, &e))
        die("watch a connection");
}

static void read_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    char host[64];
    if (!strncmp(text, "unix:", 5)) {
        l.to.path.sun_family = AF_UNIX;
        l.to_len = sizeof(l.to.path);
        if ((size_t)snprintf(l.to.path.sun_path, sizeof(l.to.path.sun_path), "%s", text + 5) <
            sizeof(l.to.path.sun_path))
            return;
    } else if (colon && (size_t)(colon - text) < sizeof(host)) {
        snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
        l.to.ip.sin_family = AF_INET;
        l.to.ip.sin_port = htons((uint16_t)number(colon + 1, 1));
        l.to_len = sizeof(l.to.ip);
        if (inet_pton(AF_INET, host, &l.to.ip.sin_addr) == 1)
            return;
    }
    fprintf(stderr, "'%s' is no address: 127.0.0.1:PORT or unix:PATH\n", text);
    exit(2);
}

/* --- asking --- */

static bool may_ask(int64_t now)
{
    return l.asked < l.plan.runs && now < l.plan.until_us;
}

/* A request is far smaller than a socket's buffer, so it goes out whole or the connection is broken, of which
 * the next read tells. */
static void ask(struct connection *c, int64_t now)
{
    c->got = c->size = 0;
    c->next_us = 0;
    c->start_us = l.plan.burst ? l.plan.start_us : now;
    l.asked++;
    l.under_way++;
    const ssize_t n = send(c->fd, l.request, l.request_len, MSG_NOSIGNAL);
    if (n >= 0 && (size_t)n < l.request_len) {
        fprintf(stderr, "the request is too large for a socket\n");
        exit(2);
    }
}

static void go_on(struct connection *c, int64_t now)
{
    c->start_us = 0;
    l.under_way--;
    if (l.plan.pause_ms)
        c->next_us = now + l.plan.pause_ms * 1000;
    else if (may_ask(now))
        ask(c, now);
}

/* --- replies --- */

static void failure(const struct connection *c, const char *what)
{
    if (!l.times.failed++)
        fprintf(stderr, "first failure: %s: %.*s\n", what, (int)(c->got < 2000 ? c->got : 2000), c->reply);
}

static void ended(struct connection *c, const char *what)
{
    const bool asked = c->start_us;
    if (asked) {
        l.times.runs++;
        failure(c, what);
    }
    close(c->fd);
    connect_to_service(c);
    if (asked)
        go_on(c, now_us());
}

/* Finds the head's end and the reply's size; every reply to this program has a length. */
static void read_head(struct connection *c)
{
    static const char field[] = "\r\nContent-Length:";
    const char *end = memmem(c->reply, c->got, "\r\n\r\n", 4);
    if (!end)
        return;
    c->body = (size_t)(end - c->reply) + 4;
    for (const char *at = c->reply; at + sizeof(field) < end; at++)
        if (*at == '\r' && !strncasecmp(at, field, sizeof(field) - 1)) {
            c->size = c->body + strtoul(at + sizeof(field) - 1, NULL, 10);
            return;
        }
    c->size = c->body;
}

static void complete(struct connection *c)
{
    static const char ok[] = "HTTP/1.1 200 ";
    const int64_t now = now_us();
    l.times.runs++;
    l.times.last_us = now;
    if (c->got < sizeof(ok) || memcmp(c->reply, ok, sizeof(ok) - 1))
        failure(c, "not 200");
    else if (l.plan.expect && !memmem(c->reply + c->body, c->size - c->body, l.plan.expect, l.expect_len))
        failure(c, "not what was expected");
    else if (plan_counts(&l.plan, now))
        times_add(&l.times, (uint32_t)(now - c->start_us));
    go_on(c, now);
}

static void readable(struct connection *c)
{
    const ssize_t n = recv(c->fd, c->reply + c->got, REPLY_MOST - c->got, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 || c->got + (size_t)n == REPLY_MOST) {
        ended(c, n > 0 ? "larger than this program reads" : "the connection ended");
        return;
    }
    c->got += (size_t)n;
    if (!c->size)
        read_head(c);
    if (c->size && c->got >= c->size && c->start_us)
        complete(c);
}

/* --- the whole --- */

static void options(int argc, char **argv)
{
    const char *body = NULL;
    for (int o; (o = getopt(argc, argv, PLAN_OPTIONS "b:")) != -1;) {
        if (o == 'b')
            body = optarg;
        else if (!plan_option(&l.plan, o, optarg))
            exit(2);
    }
    if (argc - optind != 2) {
        fprintf(stderr, "usage: bench-load [OPTION]... HOST:PORT|unix:PATH TARGET (options: see load.c)\n");
        exit(2);
    }
    plan_check(&l.plan);
    read_address(argv[optind]);
    const int n = body ? asprintf(&l.request,
                                  "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                  "Content-Length: %zu\r\n\r\n%s",
                                  argv[optind + 1], strlen(body), body)
                       : asprintf(&l.request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", argv[optind + 1]);
    if (n < 0)
        die("asprintf");
    l.request_len = (size_t)n;
    l.expect_len = l.plan.expect ? strlen(l.plan.expect) : 0;
}

/* Asks where a pause is over; returns for how long to wait at most, in ms, or -1 when all is done. */
static int turn(struct connection *c)
{
    if (!l.plan.pause_ms)
        return l.under_way ? 1000 : -1;
    const int64_t now = now_us();
    int64_t first = INT64_MAX;
    if (!may_ask(now))
        return l.under_way ? 1000 : -1;
    for (long i = 0; i < l.plan.clients; i++) {
        if (c[i].next_us && c[i].next_us <= now && may_ask(now))
            ask(&c[i], now);
        else if (c[i].next_us && c[i].next_us < first)
            first = c[i].next_us;
    }
    return first == INT64_MAX ? 1000 : (int)((first - now) / 1000 + 1);
}

int main(int argc, char **argv)
{
    options(argc, argv);
    l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct connection *c = calloc((size_t)l.plan.clients, sizeof(*c));
    if (l.epoll_fd < 0 || !c)
        die("start");
    for (long i = 0; i < l.plan.clients; i++)
        connect_to_service(&c[i]);
    if (l.plan.burst)
        usleep(ACCEPTED_US);
    plan_start(&l.plan);
    for (long i = 0; i < l.plan.clients && may_ask(l.plan.start_us); i++)
        ask(&c[i], now_us());
    for (int wait_ms; (wait_ms = turn(c)) >= 0;) {
        struct epoll_event e[64];
        const int n = epoll_wait(l.epoll_fd, e, 64, wait_ms);
        for (int i = 0; i < n; i++)
            readable(e[i].data.ptr);
    }
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    times_report(&l.times, &l.plan, seconds_of(&own));
    return l.times.failed ? 1 : 0;
}
