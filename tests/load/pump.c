/* pump: one request, again and again, over a number of connections that are kept alive; one thread. Prints
 * one line of JSON: how many, how fast, how long they took. It costs far less than what it asks for, so that
 * it is the service that is measured.
 *
 *   pump [-c CONNECTIONS] [-n REQUESTS] [-t SECONDS] [-p PAUSE_MS] [-m METHOD] [-b BODY] [-e TEXT] [-o FILE]
 *        HOST PORT PATH
 *
 * -n, -t: stop after so many, or after so long, whichever is first. -p: each connection waits between a reply
 * and its next request. -e: what a good reply has in it; others count as wrong. -o: the time of every
 * reply goes there, in microseconds, one a line. Exit code 1 if not every reply was good. */
#include "client.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/epoll.h>

#define REPLY_MOST 262144

struct connection {
    int fd;
    size_t sent, got;
    int64_t start_us, next_us; /* next_us: when to ask again; 0: a request is under way */
    char *reply;
};

static struct pump {
    struct sockaddr_in to;
    char *request;
    size_t request_len;
    const char *expect, *times_file;
    long connections, most, pause_ms;
    int64_t until_us;
    int epoll_fd;
    long asked, answered, wrong, broken, under_way;
    long status[600];
    uint32_t *took_us;
    size_t took_room;
} p = {.connections = 1, .most = 2000000000};

/* --- asking --- */

static void ask(struct connection *c)
{
    c->sent = c->got = 0;
    c->next_us = 0;
    c->start_us = now_us();
    p.asked++;
    p.under_way++;
    while (c->sent < p.request_len) {
        ssize_t n = send(c->fd, p.request + c->sent, p.request_len - c->sent, MSG_NOSIGNAL);
        if (n < 0)
            return; /* EAGAIN, or an end that the next read tells of */
        c->sent += (size_t)n;
    }
}

static bool may_ask(void)
{
    return p.asked < p.most && now_us() < p.until_us;
}

static void open_connection(struct connection *c)
{
    c->fd = dial(&p.to);
    if (c->fd < 0)
        die("connect");
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) || epoll_ctl(p.epoll_fd, EPOLL_CTL_ADD, c->fd, &e))
        die("watch a connection");
}

static void go_on(struct connection *c)
{
    if (p.pause_ms)
        c->next_us = now_us() + p.pause_ms * 1000;
    else if (may_ask())
        ask(c);
}

/* --- answers --- */

static void note_time(int64_t us)
{
    if ((size_t)p.answered == p.took_room) {
        p.took_room = p.took_room ? p.took_room * 2 : 65536;
        p.took_us = realloc(p.took_us, p.took_room * sizeof(*p.took_us));
        if (!p.took_us)
            die("realloc");
    }
    p.took_us[p.answered++] = (uint32_t)us;
}

/* Bytes of the whole reply, or 0 while its head is not there. Every reply to this program has a length. */
static size_t whole(const struct connection *c)
{
    const char *end = strstr(c->reply, "\r\n\r\n");
    const char *length = strcasestr(c->reply, "\r\nContent-Length:");
    if (!end)
        return 0;
    if (!length || length > end)
        return (size_t)(end - c->reply) + 4;
    return (size_t)(end - c->reply) + 4 + strtoul(length + 17, NULL, 10);
}

static void answered(struct connection *c)
{
    const long status = strncmp(c->reply, "HTTP/1.1 ", 9) ? 0 : strtol(c->reply + 9, NULL, 10);
    note_time(now_us() - c->start_us);
    p.under_way--;
    p.status[status > 0 && status < 600 ? status : 0]++;
    if (status != 200 || (p.expect && !strstr(c->reply, p.expect)))
        p.wrong++;
    if (strcasestr(c->reply, "\r\nConnection: close")) {
        close(c->fd);
        open_connection(c);
    }
    go_on(c);
}

static void lost(struct connection *c)
{
    if (!c->next_us) {
        p.broken++;
        p.under_way--;
    }
    close(c->fd);
    open_connection(c);
    go_on(c);
}

static void readable(struct connection *c)
{
    ssize_t n = read(c->fd, c->reply + c->got, REPLY_MOST - c->got);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 || c->got + (size_t)n >= REPLY_MOST) {
        lost(c);
        return;
    }
    c->got += (size_t)n;
    c->reply[c->got] = '\0';
    const size_t size = whole(c);
    if (size && c->got >= size)
        answered(c);
}

/* --- the report --- */

static int by_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t percentile(double percent)
{
    if (!p.answered)
        return 0;
    const size_t at = (size_t)((double)p.answered * percent / 100);
    return p.took_us[at < (size_t)p.answered ? at : (size_t)p.answered - 1];
}

static void report(int64_t us)
{
    if (p.answered)
        qsort(p.took_us, (size_t)p.answered, sizeof(*p.took_us), by_size);
    printf("{\"connections\":%ld,\"requests\":%ld,\"wrong\":%ld,\"broken\":%ld,\"seconds\":%.3f,\"rate\":%."
           "1f,",
           p.connections, p.answered, p.wrong, p.broken, (double)us / 1e6,
           (double)p.answered * 1e6 / (double)us);
    static const struct {
        const char *name;
        double percent;
    } rows[] = {{"p50_ms", 50}, {"p90_ms", 90}, {"p99_ms", 99}, {"p999_ms", 99.9}, {"max_ms", 100}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("\"%s\":%.3f,", rows[i].name, (double)percentile(rows[i].percent) / 1000);
    printf("\"statuses\":{");
    const char *comma = "";
    for (int i = 0; i < 600; i++)
        if (p.status[i]) {
            printf("%s\"%d\":%ld", comma, i, p.status[i]);
            comma = ",";
        }
    printf("}}\n");
}

static void write_times(void)
{
    FILE *f = fopen(p.times_file, "we");
    if (!f)
        die(p.times_file);
    for (long i = 0; i < p.answered; i++)
        fprintf(f, "%u\n", p.took_us[i]);
    if (fclose(f))
        die(p.times_file);
}

/* --- the whole --- */

static void build_request(const char *method, const char *host, const char *path, const char *body)
{
    const int n = body ? asprintf(&p.request,
                                  "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                                  "Content-Length: %zu\r\n\r\n%s",
                                  method ? method : "POST", path, host, strlen(body), body)
                       : asprintf(&p.request, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method ? method : "GET",
                                  path, host);
    if (n < 0)
        die("asprintf");
    p.request_len = (size_t)n;
}

static void options(int argc, char **argv)
{
    const char *method = NULL, *body = NULL;
    long seconds = 3600;
    for (int o; (o = getopt(argc, argv, "c:n:t:p:m:b:e:o:")) != -1;) {
        switch (o) {
        case 'c':
            p.connections = number(optarg, 1);
            break;
        case 'n':
            p.most = number(optarg, 1);
            break;
        case 't':
            seconds = number(optarg, 1);
            break;
        case 'p':
            p.pause_ms = number(optarg, 0);
            break;
        case 'm':
            method = optarg;
            break;
        case 'b':
            body = optarg;
            break;
        case 'e':
            p.expect = optarg;
            break;
        case 'o':
            p.times_file = optarg;
            break;
        default:
            exit(2);
        }
    }
    if (argc - optind != 3) {
        fprintf(stderr, "usage: pump [OPTION]... HOST PORT PATH (options: see pump.c)\n");
        exit(2);
    }
    p.to = address(argv[optind], argv[optind + 1]);
    p.until_us = now_us() + seconds * 1000000;
    build_request(method, argv[optind], argv[optind + 2], body);
}

/* Asks where a pause is over; returns whether there is anything left to wait for. */
static bool turn(struct connection *c)
{
    bool pausing = false;
    for (long i = 0; p.pause_ms && i < p.connections; i++) {
        if (c[i].next_us && c[i].next_us <= now_us() && may_ask())
            ask(&c[i]);
        pausing = pausing || (c[i].next_us && may_ask());
    }
    return p.under_way || pausing;
}

int main(int argc, char **argv)
{
    options(argc, argv);
    allow_descriptors((rlim_t)p.connections + 64);
    p.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct connection *c = calloc((size_t)p.connections, sizeof(*c));
    if (p.epoll_fd < 0 || !c)
        die("start");
    for (long i = 0; i < p.connections; i++) {
        c[i].reply = malloc(REPLY_MOST + 1);
        if (!c[i].reply)
            die("malloc");
        open_connection(&c[i]);
    }
    const int64_t start_us = now_us();
    for (long i = 0; i < p.connections && may_ask(); i++)
        ask(&c[i]);
    while (turn(c)) {
        struct epoll_event e[64];
        const int n = epoll_wait(p.epoll_fd, e, 64, p.pause_ms ? 1 : 100);
        for (int i = 0; i < n; i++)
            readable(e[i].data.ptr);
    }
    report(now_us() - start_us);
    if (p.times_file)
        write_times();
    return p.wrong || p.broken ? 1 : 0;
}
