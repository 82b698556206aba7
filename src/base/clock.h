/* Deadlines live on the monotonic clock: a jump of the wall clock moves none of them. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t gb_clock_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}
