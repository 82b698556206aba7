/* glovebox-init: PID 1 of a box.
 *
 * It starts the program, reaps whatever the program leaves behind, tells the supervisor how the program
 * ended, and exits: the kernel then kills everything else in the box before the supervisor sees init gone. It
 * holds one descriptor, and has no C library, so that its memory contains nothing that a box could want.
 *
 * Its arguments and environment are the program's own. In a box that waits for its call there is no program
 * yet (no argument), or one that waits, too: then descriptors 4 and 5 are a pipe to it, or 5 alone, if it has
 * been forked already.
 *
 * By the time it runs, every confinement step is done and binds it too. */
#include "init/attend.h"
#include "init/call.h"
#include "init/report.h"

#include <stddef.h>

#define F_GETFD         1
#define PR_SET_DUMPABLE 4
#define PR_SET_NAME     15

/* The kernel enters with argc at the stack pointer; hand that on as a C argument. */
#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n xor %rbp,%rbp\n mov %rsp,%rdi\n and $-16,%rsp\n call gb_init_main\n hlt\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n mov x29,#0\n mov x0,sp\n bl gb_init_main\n");
#endif

void gb_init_main(long *stack) __attribute__((noreturn));

/* The compiler may ask for this even without a C library. */
void *memset(void *p, int c, size_t n);
void *memset(void *p, int c, size_t n)
{
    for (volatile char *d = p; n--;)
        *d++ = (char)c;
    return p;
}

void gb_init_main(long *stack)
{
    char **argv = (char **)(stack + 1), **env = argv + *stack + 1;
    /* Out of reach for /proc, before anybody else is here to look. */
    gb_call(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    gb_call(__NR_prctl, PR_SET_NAME, (long)"glovebox-init", 0, 0, 0);
    struct gb_init_waiting waiting = {-1, GB_INIT_CONTROL};
    const int nothing =
            !argv[0] || !argv[0][0]; /* the kernel gives a program without arguments one that is empty */
    const int has_control = gb_call(__NR_fcntl, GB_INIT_CONTROL, F_GETFD, 0, 0, 0) >= 0;
    if (!nothing && !has_control)
        gb_init_attend(gb_init_spawn(argv, env, -1), 0);
    gb_init_wait();
    int watch = 1;
#ifdef GB_TESTING
    watch = !nothing || !argv[0] || !argv[1]; /* see execute_init in sandbox/birth.c */
#endif
    if (nothing && !has_control)
        gb_init_attend(gb_init_await(env, NULL), watch);
    waiting.pid = nothing ? GB_INIT_WAITING_PID : gb_init_spawn(argv, env, GB_INIT_WORDS);
    gb_call(__NR_close, GB_INIT_WORDS, 0, 0, 0, 0);
    gb_init_attend(gb_init_await(env, &waiting), watch);
}
