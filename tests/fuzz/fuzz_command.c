/* Command lines. The oracle is bash itself: what it runs for a line that we accept is exactly what we
 * checked. A bash beside us, locked up, has functions in the place of programs, which write down their words.
 */
#include "fuzz.h"

#include "../integration/command_lock.h"
#include "command/form.h"

#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

#define ORACLE_BYTES 1500 /* so that what a function writes is one write(2), and pipelines mix no records */
#define TRACE_BYTES  (1 << 20)

/* A line of input: the status that programs end with, then the line. Answer on descriptor 9: records of
 * fields that end in NUL; the field "\5" ends a record (a line end would make bash write twice), "\4"
 * ends the answer. */
static const char script[] = "trace() { printf '%s\\0' \"$@\" $'\\5' >&9; return $STATUS; }\n"
                             "for name in ls cat head tail wc grep find sort uniq cut awk jq echo date "
                             "python python3 node curl; do\n"
                             "    eval \"$name() { trace $name \\\"\\$@\\\"; }\"\n"
                             "done\n"
                             "PATH=\n"
                             "while IFS= read -r line; do\n"
                             "    STATUS=${line:0:1}\n"
                             "    (eval \"${line:1}\") </dev/null >/dev/null 2>&1\n"
                             "    printf '\\4\\0' >&9\n"
                             "done\n";

static struct {
    int state; /* 0: not started, 1: runs, -1: cannot */
    int to, from, dir_fd;
    char dir[64];
} oracle;

static void oracle_exec(const int to[2], const int from[2])
{
    static char *const argv[] = {(char *)"bash", (char *)"--norc", (char *)"-c", (char *)script, NULL};
    static char *const env[] = {(char *)"LC_ALL=C.UTF-8", NULL};
    if (dup2(to[0], 0) < 0 || dup2(from[1], 9) < 0 || chdir(oracle.dir) ||
        !command_lock(oracle.dir, "/bin/bash"))
        _exit(77);
    execve("/bin/bash", argv, env);
    _exit(77);
}

static void oracle_stop(void)
{
    rmdir(oracle.dir);
}

static void oracle_start(void)
{
    int to[2], from[2];
    snprintf(oracle.dir, sizeof(oracle.dir), "/tmp/glovebox-fuzz-XXXXXX");
    CHECK(mkdtemp(oracle.dir) && !pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC));
    atexit(oracle_stop);
    oracle.dir_fd = open(oracle.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(oracle.dir_fd >= 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid)
        oracle_exec(to, from);
    close(to[0]);
    close(from[1]);
    oracle.to = to[1];
    oracle.from = from[0];
    oracle.state = gb_landlock_version() ? 1 : -1;
    if (oracle.state < 0)
        fprintf(stderr, "no Landlock to lock bash up with: lines are not given to it\n");
}

/* What bash ran: fields in trace. Returns the length of the answer without its end. */
static size_t oracle_ask(const char *line, size_t len, char status, char *trace)
{
    char text[ORACLE_BYTES + 2];
    size_t have = 0;
    text[0] = status;
    memcpy(text + 1, line, len);
    text[len + 1] = '\n';
    CHECK(write(oracle.to, text, len + 2) == (ssize_t)(len + 2));
    do {
        const ssize_t n = read(oracle.from, trace + have, TRACE_BYTES - have);
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        have += (size_t)n;
    } while (have < 2 || trace[have - 2] != '\4' || trace[have - 1]);
    return have - 2;
}

/* --- what our form says --- */

static bool same_record(const struct gb_command *c, const struct gb_command_part *part, const char **trace,
                        const char *end)
{
    const char *p = *trace;
    for (size_t i = part->first; i < (size_t)part->first + part->count; i++) {
        if (c->items[i].kind != GB_CMD_WORD)
            continue;
        if (p >= end || strcmp(p, c->items[i].text))
            return false;
        p += strlen(p) + 1;
    }
    if (p >= end || strcmp(p, "\5"))
        return false;
    *trace = p + 2;
    return true;
}

/* The members of a pipeline write in any order. */
static void check_pipeline(const struct gb_command *c, size_t first, size_t count, const char **trace,
                           const char *end)
{
    bool seen[GB_COMMAND_PARTS] = {false};
    for (size_t n = 0; n < count; n++) {
        size_t i = 0;
        while (i < count && (seen[i] || !same_record(c, &c->parts[first + i], trace, end)))
            i++;
        CHECK(i < count);
        seen[i] = true;
    }
}

static void check_trace(const struct gb_command *c, char status, const char *trace, size_t len)
{
    const char *end = trace + len;
    bool failed = false;
    for (size_t i = 0, n; i < c->part_count; i += n) {
        for (n = 1; i + n < c->part_count && c->parts[i + n].join == GB_CMD_JOIN_PIPE;)
            n++;
        const unsigned join = c->parts[i].join;
        if ((join == GB_CMD_JOIN_AND && failed) || (join == GB_CMD_JOIN_OR && !failed))
            continue;
        check_pipeline(c, i, n, &trace, end);
        failed = status == '1';
    }
    CHECK(trace == end);
}

/* Every file of the line can be made in the directory: it has no path. */
static bool has_plain_files(const struct gb_command *c)
{
    for (size_t i = 0; i < c->item_count; i++) {
        const char *text = c->items[i].text;
        if (c->items[i].kind != GB_CMD_WORD && text && strcmp(text, "/dev/null") &&
            (strchr(text, '/') || strlen(text) > 255 || !strcmp(text, ".") || !strcmp(text, "..")))
            return false;
    }
    return true;
}

static void make_inputs(const struct gb_command *c)
{
    for (size_t i = 0; i < c->item_count; i++) {
        const struct gb_command_item *item = &c->items[i];
        if (item->kind == GB_CMD_FROM && *item->text != '/') {
            const int fd = openat(oracle.dir_fd, item->text, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            CHECK(fd >= 0);
            close(fd);
        }
    }
}

/* No other files than the line names came into being. */
static void check_files(const struct gb_command *c)
{
    for (size_t i = 0; i < c->item_count; i++)
        if (c->items[i].kind != GB_CMD_WORD && c->items[i].text && *c->items[i].text != '/')
            CHECK(!unlinkat(oracle.dir_fd, c->items[i].text, 0) || errno == ENOENT);
    DIR *dir = opendir(oracle.dir);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        CHECK(*entry->d_name == '.');
    closedir(dir);
}

static void ask_bash(const struct gb_command *c, const char *line, size_t len)
{
    static char trace[TRACE_BYTES];
    if (!oracle.state)
        oracle_start();
    if (oracle.state < 0 || len > ORACLE_BYTES || !has_plain_files(c))
        return;
    for (char status = '0'; status <= '1'; status++) {
        make_inputs(c);
        const size_t n = oracle_ask(line, len, status, trace);
        check_trace(c, status, trace, n);
        check_files(c);
    }
}

/* --- what must hold for every line --- */

static void check_denials(const struct gb_denial *denials, size_t count, enum gb_denial_code code)
{
    CHECK(count && count <= GB_DENIALS);
    for (size_t i = 0; i < count; i++) {
        CHECK(denials[i].code == code && !strncmp(denials[i].reason, "column ", 7));
        for (const char *p = denials[i].reason; *p; p++)
            CHECK(!iscntrl((unsigned char)*p));
    }
}

static void check_form(const struct gb_command *c)
{
    size_t items = 0;
    CHECK(c->part_count && c->part_count <= GB_COMMAND_PARTS && c->item_count <= GB_COMMAND_WORDS);
    for (size_t i = 0; i < c->part_count; i++) {
        const struct gb_command_part *part = &c->parts[i];
        CHECK(part->first == items && part->count && part->program >= part->first);
        CHECK((part->join == GB_CMD_JOIN_NONE) == (i == 0));
        items += part->count;
        CHECK(part->program < items && c->items[part->program].kind == GB_CMD_WORD);
    }
    CHECK(items == c->item_count);
    for (size_t i = 0; i < items; i++)
        for (const char *p = c->items[i].text; p && *p; p++)
            CHECK(!iscntrl((unsigned char)*p) || *p == '\t' || (unsigned char)*p >= 0x80);
}

/* The line for sh without its subshells, or the words of argv in quotes: a line that we understand. */
static size_t plain_line(const struct gb_command *c, char *out)
{
    const char *const *argv = gb_command_argv(c);
    char *start = out;
    if (!c->shell_line) {
        for (size_t i = 0; argv[i]; i++) {
            if (i == 1 && gb_command_first(argv[0]))
                continue;
            *out++ = ' ';
            for (const char *p = argv[i]; *p; p++) {
                const char quote = *p == '\'' ? '"' : '\'';
                *out++ = quote;
                *out++ = *p;
                while ((p[1] & 0xC0) == 0x80)
                    *out++ = *++p;
                *out++ = quote;
            }
            out += **(argv + i) ? 0 : sprintf(out, "''");
        }
        return (size_t)(out - start);
    }
    CHECK(!strcmp(argv[0], "sh") && !strcmp(argv[1], "-c") && argv[2] == c->shell_line && !argv[3]);
    char quote = 0;
    for (const char *p = c->shell_line; *p; p++) {
        if (!quote && !strncmp(p, "(exec ", 6)) {
            p += 5;
        } else if (!quote && !strncmp(p, " -q", 3)) { /* gb_command_first */
            p += 2;
        } else if (quote || *p != ')') {
            quote = quote == *p ? 0 : quote ? quote : *p == '\'' || *p == '"' ? *p : 0;
            *out++ = *p;
        }
    }
    return (size_t)(out - start);
}

static void check_same(const struct gb_command *a, const struct gb_command *b)
{
    CHECK(a->part_count == b->part_count && a->item_count == b->item_count);
    for (size_t i = 0; i < a->part_count; i++) {
        const struct gb_command_part *p = &a->parts[i], *q = &b->parts[i];
        CHECK(p->first == q->first && p->count == q->count && p->program == q->program && p->join == q->join);
    }
    for (size_t i = 0; i < a->item_count; i++) {
        const char *s = a->items[i].text, *t = b->items[i].text;
        CHECK(a->items[i].kind == b->items[i].kind && !s == !t);
        CHECK(!s || !strcmp(s, t) || !strcmp(gb_command_program(s), t));
    }
}

/* What we build is understood as what it was built from, unless it is longer than a line may be. */
static void check_built(const struct gb_command *c)
{
    static char plain[4 * GB_COMMAND_SHELL];
    struct gb_denial denials[GB_DENIALS];
    size_t count = 0;
    AUTO_COMMAND again = NULL;
    const size_t len = plain_line(c, plain);
    CHECK(len < sizeof(plain));
    if (len <= GB_COMMAND_BYTES) {
        CHECK(!gb_command_parse(plain, len, &again, denials, &count));
        check_same(c, again);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gb_denial denials[GB_DENIALS];
    size_t count = 0;
    AUTO_COMMAND c = NULL;
    AUTO_FREE char *line = fuzz_copy(data, size);
    const int failed = gb_command_parse(line, size, &c, denials, &count);
    if (failed) {
        CHECK(failed == -EINVAL && !c && count == 1);
        check_denials(denials, count, GB_DENIAL_SYNTAX);
        return 0;
    }
    CHECK(c && !count);
    check_form(c);
    check_built(c);
    if (gb_command_check(c, &gb_command_defaults, denials, &count))
        check_denials(denials, count, GB_DENIAL_COMMAND);
    else
        ask_bash(c, line, size);
    return 0;
}
