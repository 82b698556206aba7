/* bench-spawn: one command line, again and again, by a number of workers that each start it, read what it
 * prints to the end, and wait for it. Nothing else happens between two runs, so that it is the command that
 * is measured.
 *
 *   bench-spawn [-c WORKERS] [-n RUNS] [-t MS] [-r RAMP_MS] [-p PAUSE_MS] [-B] [-e TEXT] [-o FILE]
 *               -- PROGRAM [ARGUMENT]...
 *
 * Until -n are started or -t is over; -p: a pause after each. -B: a burst; all workers are there first, then
 * each runs it once. The first argument with {} in it gets a name there that no other run has. -e: what it
 * has to print, byte for byte. Another output, or an exit code other than 0, is a failure; the first is shown
 * on standard error, and the exit code is 1. SIGTERM: no further runs. */
#include "times.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ROOM        65536 /* runs of one worker */
#define OUTPUT_MOST 4096

/* What a worker leaves behind, in memory that it shares with its parent. */
struct worker {
    pid_t pid;
    long runs, failed;
    size_t counted;
    int64_t last_us;
    double own_cpu_s;
    uint32_t us[ROOM];
};

static struct spawn {
    struct plan plan;
    char **argv;
    const char *hole;  /* the argument with {} in it, or NULL */
    char filled[4096]; /* the same with the name of this run */
    posix_spawn_file_actions_t actions;
    struct shared {
        atomic_long tickets; /* runs that are begun */
        atomic_bool failed, stopped;
        int64_t start_us;
    } * shared;
    struct worker *workers;
} s = {.plan = PLAN_DEFAULT};

extern char **environ;

static void stop(int number)
{
    (void)number;
    atomic_store(&s.shared->stopped, true);
}

static void *shared_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        die("mmap");
    return p;
}

/* --- one run --- */

/* The name is made of our process and the number of the run. */
static void fill_name(long ticket)
{
    if (!s.hole)
        return;
    const char *at = strstr(s.hole, "{}");
    if (snprintf(s.filled, sizeof(s.filled), "%.*s%d-%ld%s", (int)(at - s.hole), s.hole, getppid(), ticket,
                 at + 2) >= (int)sizeof(s.filled)) {
        fprintf(stderr, "the argument with {} is too long\n");
        exit(2);
    }
}

static void show_failure(int status, const char *output, size_t len)
{
    if (atomic_exchange(&s.shared->failed, true))
        return;
    fprintf(stderr, "first failure: %s %d, output: %.*s\n", WIFEXITED(status) ? "exit code" : "wait status",
            WIFEXITED(status) ? WEXITSTATUS(status) : status, (int)len, output);
}

/* Runs it once; returns whether it did what it should. */
static bool run_once(int read_fd, int write_fd)
{
    char output[OUTPUT_MOST];
    size_t len = 0;
    ssize_t n;
    int status;
    pid_t pid;
    const int error = posix_spawn(&pid, s.argv[0], &s.actions, NULL, s.argv, environ);
    close(write_fd);
    if (error) {
        fprintf(stderr, "%s: %s\n", s.argv[0], strerror(error));
        exit(2);
    }
    while ((n = read(read_fd, output + len, sizeof(output) - len)) > 0 || (n < 0 && errno == EINTR))
        len += n > 0 && len + (size_t)n < sizeof(output) ? (size_t)n : 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    const size_t want = s.plan.expect ? strlen(s.plan.expect) : len;
    if (!status && len == want && (!s.plan.expect || !memcmp(output, s.plan.expect, want)))
        return true;
    show_failure(status, output, len);
    return false;
}

/* --- a worker --- */

/* The pipe takes the same two numbers every time, which the file actions name. */
static void make_pipe(int fds[2], bool first)
{
    const int was[2] = {fds[0], fds[1]};
    if (pipe2(fds, O_CLOEXEC))
        die("pipe");
    if (!first && (fds[0] != was[0] || fds[1] != was[1])) {
        fprintf(stderr, "descriptors are lost\n");
        exit(2);
    }
}

static void prepare_actions(int write_fd)
{
    posix_spawn_file_actions_init(&s.actions);
    posix_spawn_file_actions_addopen(&s.actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&s.actions, write_fd, 1);
    posix_spawn_file_actions_addopen(&s.actions, 2, "/dev/null", O_WRONLY, 0);
}

static void work(struct worker *w)
{
    int fds[2] = {-1, -1};
    for (long ticket; !atomic_load(&s.shared->stopped) && w->counted < ROOM &&
                      (ticket = atomic_fetch_add(&s.shared->tickets, 1)) < s.plan.runs;) {
        const bool first = !w->runs;
        fill_name(ticket);
        make_pipe(fds, first);
        if (first)
            prepare_actions(fds[1]);
        const int64_t start = now_us();
        if (start >= s.plan.until_us)
            return;
        const bool good = run_once(fds[0], fds[1]);
        w->last_us = now_us();
        close(fds[0]);
        w->runs++;
        if (!good)
            w->failed++;
        else if (plan_counts(&s.plan, w->last_us))
            w->us[w->counted++] = (uint32_t)(w->last_us - (s.plan.burst ? s.plan.start_us : start));
        if (s.plan.pause_ms)
            usleep((useconds_t)s.plan.pause_ms * 1000);
    }
}

/* The gate is a pipe that the parent closes when all workers wait at it. Each worker has a session of its
 * own, as most of what makes boxes gives its boxes: sessions are what the kernel shares processors among, and
 * a program that is started bare must not have less of a busy machine than one in a box. */
static void start_worker(struct worker *w, int gate_fd, int gate_write_fd)
{
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        die("fork");
    if (pid) {
        w->pid = pid; /* by the parent alone: the memory is shared */
        return;
    }
    char nothing;
    struct rusage own;
    if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
        _exit(2);
    close(gate_write_fd);
    while (read(gate_fd, &nothing, 1) < 0 && errno == EINTR)
        continue;
    close(gate_fd);
    s.plan.start_us = s.shared->start_us;
    s.plan.from_us = s.plan.start_us + s.plan.ramp_ms * 1000;
    s.plan.until_us = s.plan.start_us + s.plan.time_ms * 1000;
    work(w);
    getrusage(RUSAGE_SELF, &own);
    w->own_cpu_s = seconds_of(&own);
    _exit(0);
}

/* --- the whole --- */

static void options(int argc, char **argv)
{
    for (int o; (o = getopt(argc, argv, "+" PLAN_OPTIONS)) != -1;)
        if (!plan_option(&s.plan, o, optarg))
            exit(2);
    s.argv = argv + optind;
    if (optind == argc || s.argv[0][0] != '/') {
        fprintf(stderr,
                "usage: bench-spawn [OPTION]... -- /PATH/OF/PROGRAM [ARGUMENT]... (options: see spawn.c)\n");
        exit(2);
    }
    for (char **arg = s.argv; *arg && !s.hole; arg++)
        if (strstr(*arg, "{}")) {
            s.hole = *arg;
            *arg = s.filled;
        }
    plan_check(&s.plan);
}

static void collect(struct times *t, double *ret_own_cpu_s)
{
    int status;
    for (long i = 0; i < s.plan.clients; i++) {
        struct worker *w = &s.workers[i];
        while (waitpid(w->pid, &status, 0) < 0)
            if (errno != EINTR)
                die("waitpid");
        if (status) {
            fprintf(stderr, "a worker ended with wait status %d\n", status);
            exit(2);
        }
        t->runs += w->runs;
        t->failed += w->failed;
        t->last_us = w->last_us > t->last_us ? w->last_us : t->last_us;
        *ret_own_cpu_s += w->own_cpu_s;
        for (size_t k = 0; k < w->counted; k++)
            times_add(t, w->us[k]);
    }
}

int main(int argc, char **argv)
{
    options(argc, argv);
    struct times times = {0};
    double own_cpu_s = 0;
    int gate[2];
    const struct sigaction on_term = {.sa_handler = stop};
    s.shared = shared_memory(sizeof(*s.shared));
    if (pipe2(gate, O_CLOEXEC) || sigaction(SIGTERM, &on_term, NULL))
        die("start");
    s.workers = shared_memory(sizeof(*s.workers) * (size_t)s.plan.clients);
    for (long i = 0; i < s.plan.clients; i++)
        start_worker(&s.workers[i], gate[0], gate[1]);
    usleep(20000 + (useconds_t)s.plan.clients * 500); /* all are at the gate by then */
    plan_start(&s.plan);
    s.shared->start_us = s.plan.start_us;
    close(gate[1]);
    collect(&times, &own_cpu_s);
    times_report(&times, &s.plan, own_cpu_s);
    return times.failed ? 1 : 0;
}
