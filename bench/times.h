/* What bench-load and bench-spawn share: a clock, options that are numbers, the window in which calls count,
 * and the report. Both print one object of JSON on standard output, and with -o write every latency that
 * counts, in microseconds, as 32 bit numbers in the machine's order: slices of one subject are put together
 * from these.
 *
 * What counts: without a ramp every call, and the time from the first start to the last end. With one, the
 * calls that ended between its end and the end of the time: what a store of waiting boxes gave first, and the
 * tail in which fewer and fewer clients ask, are then no part of what is called sustained. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct plan {
    long clients, runs, pause_ms, time_ms, ramp_ms;
    bool burst; /* as many runs as clients, all at once, measured from one start */
    const char *expect, *times_file;
    int64_t start_us, from_us, until_us; /* filled in by plan_start() */
};

struct times {
    uint32_t *us;
    size_t count, room;
    long runs, failed; /* of all calls, counted ones or not */
    int64_t last_us;
};

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

/* Takes one of the options that both programs have; false: it is another. */
static inline bool plan_option(struct plan *plan, int option, const char *value)
{
    const struct {
        int option;
        long *into, least;
    } numbers[] = {
            {'c', &plan->clients, 1}, {'n', &plan->runs, 1},     {'t', &plan->time_ms, 1},
            {'r', &plan->ramp_ms, 0}, {'p', &plan->pause_ms, 0},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i].option == option) {
            *numbers[i].into = number(value, numbers[i].least);
            return true;
        }
    if (option == 'B')
        plan->burst = true;
    else if (option == 'e')
        plan->expect = value;
    else if (option == 'o')
        plan->times_file = value;
    else
        return false;
    return true;
}

#define PLAN_OPTIONS "c:n:t:r:p:Be:o:"
#define PLAN_DEFAULT                                                                                         \
    {                                                                                                        \
        .clients = 1, .runs = 1000000000, .time_ms = 3600000                                                 \
    }

static inline void plan_check(struct plan *plan)
{
    if (plan->burst)
        plan->runs = plan->clients;
    if (plan->ramp_ms >= plan->time_ms || (plan->burst && (plan->ramp_ms || plan->pause_ms))) {
        fprintf(stderr, "a ramp is shorter than the time, and a burst has neither ramp nor pause\n");
        exit(2);
    }
}

static inline void plan_start(struct plan *plan)
{
    plan->start_us = now_us();
    plan->from_us = plan->start_us + plan->ramp_ms * 1000;
    plan->until_us = plan->start_us + plan->time_ms * 1000;
}

static inline bool plan_counts(const struct plan *plan, int64_t end_us)
{
    return !plan->ramp_ms || (end_us >= plan->from_us && end_us <= plan->until_us);
}

static inline void times_add(struct times *t, uint32_t us)
{
    if (t->count == t->room) {
        t->room = t->room ? t->room * 2 : 65536;
        t->us = realloc(t->us, t->room * sizeof(*t->us));
        if (!t->us)
            die("realloc");
    }
    t->us[t->count++] = us;
}

static inline int times_order(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static inline double times_percentile(const struct times *t, double percent)
{
    const size_t at = (size_t)((double)t->count * percent / 100);
    return t->count ? (double)t->us[at < t->count ? at : t->count - 1] / 1000 : 0;
}

static inline double seconds_of(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

/* own_cpu_s: what the program itself used, which is to be taken off what is measured around it. */
static inline void times_report(struct times *t, const struct plan *plan, double own_cpu_s)
{
    static const double percents[] = {1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9};
    const int64_t us = plan->ramp_ms ? plan->until_us - plan->from_us : t->last_us - plan->start_us;
    if (t->count)
        qsort(t->us, t->count, sizeof(*t->us), times_order);
    printf("{\"clients\":%ld,\"runs\":%ld,\"failed\":%ld,\"counted\":%zu,\"seconds\":%.6f,\"rate\":%.2f,"
           "\"own_cpu_seconds\":%.6f,\"min_ms\":%.3f",
           plan->clients, t->runs, t->failed, t->count, (double)us / 1e6,
           us > 0 ? (double)t->count * 1e6 / (double)us : 0, own_cpu_s, times_percentile(t, 0));
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
        printf(",\"p%g_ms\":%.3f", percents[i], times_percentile(t, percents[i]));
    printf(",\"max_ms\":%.3f}\n", times_percentile(t, 100));
    if (!plan->times_file)
        return;
    FILE *f = fopen(plan->times_file, "we");
    if (!f || fwrite(t->us, sizeof(*t->us), t->count, f) != t->count || fclose(f))
        die(plan->times_file);
}
