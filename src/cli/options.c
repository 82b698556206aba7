#include "cli/cli.h"

#include "base/auto.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int begin(void)
{
    if (getauxval(AT_SECURE))
        return complain("glovebox must not be installed setuid, setgid or with file capabilities: it would "
                        "lend its rights to everybody");
    /* Descriptors 0 to 2 must exist, or what we open next would be taken for them. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) == fd)
            fcntl(fd, F_SETFD, 0);
    return 0;
}

bool find_sibling(const char *name, char *path, size_t size)
{
    static const char *const places[] = {"", "../libexec/glovebox/"};
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0)
        return false;
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (snprintf(path, size, "%s/%s%s", exe, places[i], name) < (int)size && !access(path, R_OK))
            return true;
    return false;
}

/* Words of the user may hold anything; what reaches a terminal holds no control characters. */
int complain(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    gb_text_defuse(text);
    fprintf(stderr, "glovebox: %s\n", text);
    return EXIT_GLOVEBOX;
}

int finish_output(void)
{
    if (fflush(stdout) || ferror(stdout))
        return complain("cannot write the output: %s", strerror(errno));
    return 0;
}

static const struct option_row *find(const struct option_row *rows, size_t count, const char *word,
                                     size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == len && !memcmp(rows[i].name, word, len))
            return &rows[i];
    return NULL;
}

int options_parse(const struct option_row *rows, size_t count, int argc, char **argv, void *context,
                  bool *ret_dashes)
{
    int i = 1;
    *ret_dashes = false;
    for (; i < argc; i++) {
        const char *word = argv[i];
        if (!strcmp(word, "--")) {
            *ret_dashes = true;
            return i + 1;
        }
        if (word[0] != '-' || !word[1])
            return i;
        const char *equals = !strncmp(word, "--", 2) ? strchr(word, '=') : NULL;
        const struct option_row *row =
                find(rows, count, word, equals ? (size_t)(equals - word) : strlen(word));
        if (!row) {
            complain("unknown option '%.100s'; `glovebox %s --help` lists them", word, argv[0]);
            return -1;
        }
        const char *value = equals ? equals + 1 : NULL;
        if (row->value && !value && ++i < argc)
            value = argv[i];
        if (row->value && !value) {
            complain("%s takes a value: %s %s", row->name, row->name, row->value);
            return -1;
        }
        if (!row->value && value) {
            complain("%s takes no value", row->name);
            return -1;
        }
        if (row->apply(context, row, value))
            return -1;
    }
    return i;
}

void options_print(const struct option_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];
        if (!rows[i].help)
            continue; /* a second name of the row before */
        snprintf(left, sizeof(left), "%s%s%s", rows[i].name, rows[i].value ? " " : "",
                 rows[i].value ? rows[i].value : "");
        printf("  %-28s %s\n", left, rows[i].help);
    }
}
