/* System calls without a C library: what runs as PID 1 of a box, be it glovebox-init or a fork of a zygote,
 * uses nothing else. */
#pragma once

#include <asm/unistd.h>

#if defined(__x86_64__)
static inline long gb_call6(long n, long a, long b, long c, long d, long e, long f)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline long gb_call6(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
#error "glovebox-init knows x86-64 and arm64"
#endif

static inline long gb_call(long n, long a, long b, long c, long d, long e)
{
    return gb_call6(n, a, b, c, d, e, 0);
}

#define GB_AT_FDCWD (-100L)
