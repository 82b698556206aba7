/* What shells do with a line, for test_command_bash.py. Two programs in one:
 *
 *   command-oracle DIR SHELL ARGUMENT…   runs the shell, locked into DIR; exit code 77 if there is no
 * Landlock
 *
 * Under any other name it stands for the program of that name: it runs nothing, but writes its words, and
 * where its standard input, output and error go, to descriptor 9, and ends as the variable STATUS says (0, 1,
 * or "odd": 1 if the number of its arguments is odd). A record is fields that end in NUL, then a line end. */
#include "command_lock.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define TRACE_FD   9
#define RECORD_MAX (1 << 18)

/* "|": a pipe; "-": a device; else the file's name, seen from the working directory. */
static void describe(int fd, char *buf, size_t size)
{
    char link[32], cwd[PATH_MAX];
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        snprintf(buf, size, "%s", S_ISFIFO(st.st_mode) ? "|" : "-");
        return;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, buf, size - 1);
    buf[n < 0 ? 0 : n] = '\0';
    size_t prefix = getcwd(cwd, sizeof(cwd)) ? strlen(cwd) : 0;
    if (prefix && !strncmp(buf, cwd, prefix) && buf[prefix] == '/')
        memmove(buf, buf + prefix + 1, strlen(buf + prefix + 1) + 1);
}

static void add(char *record, size_t *len, const char *text)
{
    const size_t n = strlen(text) + 1;
    if (*len + n < RECORD_MAX) {
        memcpy(record + *len, text, n);
        *len += n;
    }
}

static int trace(int argc, char **argv, const char *name)
{
    static char record[RECORD_MAX + 1];
    char file[PATH_MAX];
    size_t len = 0;
    for (int fd = 0; fd < 3; fd++) {
        describe(fd, file, sizeof(file));
        add(record, &len, file);
    }
    add(record, &len, name);
    for (int i = 1; i < argc; i++)
        add(record, &len, argv[i]);
    record[len++] = '\n';
    if (write(TRACE_FD, record, len) != (ssize_t)len)
        return 3;
    const char *status = getenv("STATUS");
    return status && !strcmp(status, "odd") ? (argc - 1) & 1 : status && *status == '1';
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash ? slash + 1 : argv[0];
    if (strcmp(name, "command-oracle"))
        return trace(argc, argv, name);
    if (argc < 3)
        return 2;
    if (!command_lock(argv[1], argv[2]))
        return 77;
    execv(argv[2], argv + 2);
    return 2;
}
