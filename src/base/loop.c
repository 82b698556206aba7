#include "base/loop.h"

#include "base/auto.h"
#include "base/clock.h"

#include <errno.h>
#include <sys/epoll.h>

#define BATCH 256

struct gb_loop {
    int epoll_fd;
    bool stopped;
    struct epoll_event batch[BATCH]; /* events of this round that are still to be told */
    int batch_at, batch_len;
    struct gb_timer **heap; /* a binary heap: the earliest at 1, slot 0 unused */
    size_t timers, size;
};

struct gb_loop *gb_loop_new(void)
{
    struct gb_loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        free(loop);
        return NULL;
    }
    return loop;
}

void gb_loop_free(struct gb_loop *loop)
{
    if (!loop)
        return;
    close(loop->epoll_fd);
    free(loop->heap);
    free(loop);
}

int gb_loop_watch(struct gb_loop *loop, struct gb_source *source, uint32_t events)
{
    /* The kernel tells errors and hang-ups always; asking for them here makes "watched for nothing" differ
     * from "not watched". */
    const uint32_t registered = events | EPOLLERR | EPOLLHUP;
    if (source->events == registered)
        return 0;
    struct epoll_event e = {.events = registered, .data.ptr = source};
    if (epoll_ctl(loop->epoll_fd, source->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, source->fd, &e))
        return -errno;
    source->events = registered;
    return 0;
}

void gb_loop_forget(struct gb_loop *loop, struct gb_source *source)
{
    if (!source->events)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->events = 0;
    /* The owner may be freed now: what this round still holds for it must not be told. */
    for (int i = loop->batch_at; i < loop->batch_len; i++)
        if (loop->batch[i].data.ptr == source)
            loop->batch[i].data.ptr = NULL;
}

/* --- timers --- */

static void put(struct gb_loop *loop, size_t slot, struct gb_timer *timer)
{
    loop->heap[slot] = timer;
    timer->slot = slot;
}

static void sift_up(struct gb_loop *loop, size_t slot)
{
    struct gb_timer *timer = loop->heap[slot];
    for (; slot > 1 && loop->heap[slot / 2]->at_us > timer->at_us; slot /= 2)
        put(loop, slot, loop->heap[slot / 2]);
    put(loop, slot, timer);
}

static void sift_down(struct gb_loop *loop, size_t slot)
{
    struct gb_timer *timer = loop->heap[slot];
    for (size_t child; (child = slot * 2) <= loop->timers; slot = child) {
        if (child < loop->timers && loop->heap[child + 1]->at_us < loop->heap[child]->at_us)
            child++;
        if (loop->heap[child]->at_us >= timer->at_us)
            break;
        put(loop, slot, loop->heap[child]);
    }
    put(loop, slot, timer);
}

static void cancel(struct gb_loop *loop, struct gb_timer *timer)
{
    size_t slot = timer->slot;
    if (!slot)
        return;
    timer->slot = 0;
    struct gb_timer *last = loop->heap[loop->timers--];
    if (last == timer)
        return;
    put(loop, slot, last);
    sift_up(loop, slot);
    sift_down(loop, last->slot);
}

int gb_loop_at(struct gb_loop *loop, struct gb_timer *timer, int64_t at_us)
{
    timer->at_us = at_us;
    if (!at_us) {
        cancel(loop, timer);
        return 0;
    }
    if (!timer->slot) {
        if (loop->timers + 2 > loop->size) {
            size_t size = loop->size ? loop->size * 2 : 64;
            /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
            struct gb_timer **heap = realloc(loop->heap, size * sizeof(*heap));
            if (!heap)
                return -ENOMEM;
            loop->heap = heap;
            loop->size = size;
        }
        put(loop, ++loop->timers, timer);
    }
    sift_up(loop, timer->slot);
    sift_down(loop, timer->slot);
    return 0;
}

static void fire_due(struct gb_loop *loop)
{
    const int64_t now = gb_clock_us();
    while (loop->timers && loop->heap[1]->at_us <= now && !loop->stopped) {
        struct gb_timer *timer = loop->heap[1];
        cancel(loop, timer);
        timer->at_us = 0;
        timer->fire(timer);
    }
}

static int wait_ms(const struct gb_loop *loop)
{
    if (!loop->timers)
        return -1;
    int64_t left = (loop->heap[1]->at_us - gb_clock_us() + 999) / 1000;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

int gb_loop_run(struct gb_loop *loop)
{
    loop->stopped = false;
    while (!loop->stopped) {
        int n = epoll_wait(loop->epoll_fd, loop->batch, BATCH, wait_ms(loop));
        if (n < 0 && errno != EINTR)
            return -errno;
        loop->batch_len = n < 0 ? 0 : n;
        for (loop->batch_at = 0; loop->batch_at < loop->batch_len && !loop->stopped;) {
            const struct epoll_event e = loop->batch[loop->batch_at++];
            struct gb_source *source = e.data.ptr;
            if (source)
                source->ready(source, e.events);
        }
        loop->batch_len = 0;
        fire_due(loop);
    }
    return 0;
}

void gb_loop_stop(struct gb_loop *loop)
{
    loop->stopped = true;
}
