/* An event loop: descriptors, timers, one thread. Owners embed a struct gb_source or gb_timer; the loop never
 * frees. Removing a source or timer from any handler is safe: it is not called again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gb_source {
    int fd;
    uint32_t events; /* EPOLLIN … as now registered */
    void (*ready)(struct gb_source *source, uint32_t events);
};

struct gb_timer {
    int64_t at_us; /* on gb_clock_us; 0: not set */
    size_t slot;
    void (*fire)(struct gb_timer *timer);
};

struct gb_loop;

struct gb_loop *gb_loop_new(void);
void gb_loop_free(struct gb_loop *loop);
/* Starts, changes or (events 0) pauses watching; -errno on failure. Errors and full hang-ups are always told;
 * EPOLLRDHUP (the peer will send no more) only on request, since it does not go away. */
int gb_loop_watch(struct gb_loop *loop, struct gb_source *source, uint32_t events);
/* Stops watching; the descriptor stays open. */
void gb_loop_forget(struct gb_loop *loop, struct gb_source *source);
/* Sets, moves or (at_us 0) cancels. 0 or -ENOMEM. */
int gb_loop_at(struct gb_loop *loop, struct gb_timer *timer, int64_t at_us);
/* Runs handlers until gb_loop_stop. */
int gb_loop_run(struct gb_loop *loop);
void gb_loop_stop(struct gb_loop *loop);

/* The owner of an embedded member. */
#define GB_OWNER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
