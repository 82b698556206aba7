/* glovebox-probe: tries to get out of a box. Put into a box and run by `glovebox selftest` and by the tests.
 *
 *   glovebox-probe all          runs every probe in a process of its own; prints name, verdict and what was
 * seen, with tabs between glovebox-probe NAME         one probe; exit code 0 held, 1 got through, 2 cannot
 * tell glovebox-probe list         name, checklist rows, steps, what it tries glovebox-probe hog WHAT uses up
 * a resource; see hogs.c */
#include "probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int hog(const char *what);

static const struct probe {
    const char *name, *rows, *steps, *what;
    enum verdict (*run)(void);
} probes[] = {
#define GB_PROBE(function, rows, steps, what) {#function, rows, steps, what, probe_##function},
#include "probe/probes.def"
#undef GB_PROBE
};
#define PROBES (sizeof(probes) / sizeof(probes[0]))

static char seen[400];
int note_fd = -1;

static void note(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));
static void note(const char *fmt, va_list ap)
{
    vsnprintf(seen, sizeof(seen), fmt, ap);
    for (char *p = seen; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
}

enum verdict escaped(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(fmt, ap);
    va_end(ap);
    return ESCAPED;
}

enum verdict unclear(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(fmt, ap);
    va_end(ap);
    return UNCLEAR;
}

bool refused(long r)
{
    return r < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS || errno == EROFS);
}

const char *slurp(const char *path)
{
    static char text[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    for (ssize_t n;
         fd >= 0 && used < sizeof(text) - 1 && (n = read(fd, text + used, sizeof(text) - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

const char *status_field(const char *name)
{
    static char value[256];
    const char *at = strstr(slurp("/proc/self/status"), name);
    *value = '\0';
    if (at)
        sscanf(at + strlen(name), ": %255[^\n]", value);
    return value;
}

/* Each probe in a child: one that is killed by the filter must not take the others along. */
static void run_apart(const struct probe *p)
{
    static const char *const words[] = {"held", "ESCAPED", "unclear"};
    int pipes[2];
    if (pipe(pipes))
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        close(pipes[0]);
        note_fd = pipes[1];
        enum verdict v = p->run();
        (void)!write(pipes[1], seen, strlen(seen));
        _exit((int)v);
    }
    close(pipes[1]);
    char text[sizeof(seen)] = "";
    ssize_t n = read(pipes[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    close(pipes[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) > UNCLEAR)
        printf("%s\tunclear\tthe probe died: status 0x%x\n", p->name, (unsigned)status);
    else
        printf("%s\t%s\t%s\n", p->name, words[WEXITSTATUS(status)], text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "all";
    if (!strcmp(verb, "hog") && argc > 2)
        return hog(argv[2]);
    for (size_t i = 0; i < PROBES; i++) {
        if (!strcmp(verb, "list"))
            printf("%s\t%s\t%s\t%s\n", probes[i].name, probes[i].rows, probes[i].steps, probes[i].what);
        else if (!strcmp(verb, "all"))
            run_apart(&probes[i]);
        else if (!strcmp(verb, probes[i].name)) {
            enum verdict v = probes[i].run();
            puts(seen);
            return (int)v;
        }
    }
    return strcmp(verb, "all") && strcmp(verb, "list") ? 3 : 0;
}
