/* soak RUNS THREADS: many boxes of every kind, polite and hostile, from one process; then looks at what is
 * left behind. Prints one line for each kind and one for each thing that must be as before. Exit code 1 if
 * anything is not. */
#include "glovebox.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What each kind runs in its box, and how that must end. Weight: how many of a hundred. */
static const struct kind {
    const char *name, *code, *status, *reason, *limits[3][2];
    int weight;
} kinds[] = {
        {"true", "true", "success", NULL, {{0}}, 40},
        {"output", "echo hello; echo world >&2", "success", NULL, {{0}}, 12},
        {"failing", "exit 3", "error", NULL, {{0}}, 6},
        {"killed by itself", "kill -SEGV $$", "error", NULL, {{0}}, 4},
        {"flood", "yes | head -c 3000000", "success", NULL, {{"max_output_bytes", "1000"}}, 4},
        {"left in background",
         "(setsid sleep 100 &) ; (nohup sleep 100 >/dev/null 2>&1 &) ; exit 0",
         "success",
         NULL,
         {{0}},
         8},
        {"closed streams", "exec 0<&- 1>&- 2>&-; exit 0", "success", NULL, {{0}}, 3},
        {"disk",
         "head -c 9000000 /dev/zero > /tmp/x; [ $? -ne 0 ]",
         "success",
         NULL,
         {{"max_disk_mb", "4"}},
         4},
        {"sleep", "sleep 100", "timeout", "timeout", {{"timeout_seconds", "0.1"}}, 4},
        {"waits for input", "cat", "success", NULL, {{0}}, 3},
        {"ignores signals",
         "trap '' HUP INT TERM QUIT; while :; do sleep 100; done",
         "timeout",
         "timeout",
         {{"timeout_seconds", "0.1"}},
         3},
        {"double fork",
         "(setsid sh -c 'trap \"\" TERM; while :; do :; done' &) ; sleep 100",
         "timeout",
         "timeout",
         {{"timeout_seconds", "0.1"}},
         2},
        {"stops itself", "kill -STOP $$", "timeout", "timeout", {{"timeout_seconds", "0.1"}}, 2},
        {"fork storm",
         "(f() { f | f & }; f) & exec sleep 100",
         "timeout",
         "timeout",
         {{"timeout_seconds", "0.2"}, {"max_pids", "30"}},
         3},
        {"memory",
         "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done",
         "resource_exceeded",
         "memory",
         {{"max_memory_mb", "16"}, {"max_disk_mb", "4"}},
         1},
        {"no such program", NULL, NULL, NULL, {{0}}, 1},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static atomic_int next_run, wrong;
static atomic_int done_of[KINDS];
static int total;

static const struct kind *pick(unsigned n)
{
    int at = (int)(n * 2654435761U >> 8) % 100;
    for (size_t i = 0; i < KINDS; i++)
        if ((at -= kinds[i].weight) < 0)
            return &kinds[i];
    return &kinds[0];
}

static bool ended_right(const struct kind *k, struct gb_run *run, int r)
{
    if (!k->code)
        return r < 0 && !strcmp(gb_run_error_code(run), "runtime_missing");
    const char *reason = gb_run_kill_reason(run);
    return r == 0 && !strcmp(gb_run_status(run), k->status) &&
           (k->reason ? reason && !strcmp(reason, k->reason) : !reason);
}

static void one(unsigned n)
{
    static const char *const missing[] = {"/usr/bin/no-such-program", NULL};
    const struct kind *k = pick(n);
    struct gb_run *run = gb_run_new();
    if (!run)
        abort();
    const char *parent = getenv("GLOVEBOX_CGROUP_PARENT");
    int r = parent ? gb_run_set_cgroup_parent(run, parent) : 0;
    r = r ? r : k->code ? gb_run_set_code(run, "sh", k->code, 0) : gb_run_set_program(run, missing);
    for (int i = 0; !r && i < 3 && k->limits[i][0]; i++)
        r = gb_run_set_limit(run, k->limits[i][0], k->limits[i][1]);
    if (!r)
        r = gb_run_start(run);
    if (!ended_right(k, run, r) && atomic_fetch_add(&wrong, 1) < 20)
        printf("WRONG %s: %s %s %s\n", k->name, gb_run_status(run),
               gb_run_kill_reason(run) ? gb_run_kill_reason(run) : "-", gb_run_error(run));
    atomic_fetch_add(&done_of[k - kinds], 1);
    gb_run_free(run);
}

static void *worker(void *unused)
{
    (void)unused;
    for (int n; (n = atomic_fetch_add(&next_run, 1)) < total;)
        one((unsigned)n);
    return NULL;
}

/* --- what may be left behind --- */

static long count_entries(const char *path, const char *prefix)
{
    long count = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        count += !strncmp(e->d_name, prefix, strlen(prefix)) && e->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

static long open_descriptors(void)
{
    return count_entries("/proc/self/fd", "");
}

static long cgroups(void)
{
    static const char *const bases[] = {"", "/memory", "/pids", "/cpu", "/cpuacct"};
    const char *parent = getenv("GLOVEBOX_CGROUP_PARENT");
    char path[512];
    long count = 0;
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s", bases[i], parent ? parent : "");
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "/");
        char prefix[32];
        snprintf(prefix, sizeof(prefix), "glovebox.box-%d-", getpid());
        count += count_entries(path, prefix);
    }
    return count;
}

static long lines_of(const char *path)
{
    long count = 0;
    FILE *f = fopen(path, "re");
    for (int c; f && (c = getc(f)) != EOF;)
        count += c == '\n';
    if (f)
        fclose(f);
    return count;
}

static long mounts(void)
{
    return lines_of("/proc/self/mountinfo");
}

static long children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD ? 0 : 1;
}

static long directories(void)
{
    return count_entries("/tmp", "glovebox") + count_entries("/run/glovebox", "");
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#ifdef __SANITIZE_ADDRESS__
#define MEMORY_SLACK (256 * 1024) /* the sanitizer keeps freed memory */
#else
#define MEMORY_SLACK 8192
#endif

static const struct thing {
    const char *name;
    long (*count)(void);
    long slack;
} things[] = {{"descriptors", open_descriptors, 0},
              {"cgroups", cgroups, 0},
              {"mounts", mounts, 0},
              {"children", children, 0},
              {"directories", directories, 0},
              {"resident KiB", resident_kib, MEMORY_SLACK}};
#define THINGS (sizeof(things) / sizeof(things[0]))

int main(int argc, char **argv)
{
    pthread_t threads[16];
    long before[THINGS];
    total = argc > 1 ? atoi(argv[1]) : 1000;
    int count = argc > 2 ? atoi(argv[2]) : 4;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned n = 0; n < 32; n++) /* what is allocated once shall not count */
        one(n);
    for (size_t i = 0; i < THINGS; i++)
        before[i] = things[i].count();
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < KINDS; i++)
        printf("%6d %s\n", done_of[i], kinds[i].name);
    bool good = !wrong;
    printf("%s runs ended otherwise than they should: %d\n", wrong ? "not ok" : "ok", wrong);
    for (size_t i = 0; i < THINGS; i++) {
        long after = things[i].count();
        bool same = after <= before[i] + things[i].slack;
        good = good && same;
        printf("%s %s: %ld before, %ld after\n", same ? "ok" : "not ok", things[i].name, before[i], after);
    }
    return good ? 0 : 1;
}
