/* glovebox run: one boxed run without any service. */
#include "cli/cli.h"

#include "glovebox.h"

#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/outputs.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define EXIT_PIPE   (128 + SIGPIPE)
#define STREAM_STEP 4096 /* a pipe that is writable takes this much without waiting (PIPE_BUF) */

struct run_state {
    struct gb_run *run;
    const char *lang, *code, *out_dir;
    bool json, replace, help;
    int stdin_fd;
    const char *outputs[256];
    size_t output_count;
    size_t printed[2]; /* bytes of each stream that went out already */
};

/* --- options --- */

static int failed(struct run_state *s)
{
    complain("%s", gb_run_error(s->run));
    return -1;
}

static int set_limit(void *context, const struct option_row *row, const char *value)
{
    struct run_state *s = context;
    char key[32];
    snprintf(key, sizeof(key), "%s", row->name + 2);
    for (char *p = key; *p; p++)
        if (*p == '-')
            *p = '_';
    return gb_run_set_limit(s->run, key, value) ? failed(s) : 0;
}

static int set_lang(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    ((struct run_state *)context)->lang = value;
    return 0;
}

static int set_code(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    if (s->code) {
        complain("-c is given twice");
        return -1;
    }
    s->code = value;
    return 0;
}

static int set_json(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    (void)value;
    ((struct run_state *)context)->json = true;
    return 0;
}

static int set_help(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    (void)value;
    ((struct run_state *)context)->help = true;
    return 0;
}

static int set_replace(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    (void)value;
    ((struct run_state *)context)->replace = true;
    return 0;
}

static int set_out_dir(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    ((struct run_state *)context)->out_dir = value;
    return 0;
}

static int add_output(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    if (s->output_count >= ARRAY_LEN(s->outputs)) {
        complain("more than %zu --out", ARRAY_LEN(s->outputs));
        return -1;
    }
    s->outputs[s->output_count++] = value;
    return gb_run_add_output(s->run, value) ? failed(s) : 0;
}

/* SRC[:DST]: splits at the last colon. */
static char *split(const char *value, const char **ret_right)
{
    char *left = strdup(value), *colon = left ? strrchr(left, ':') : NULL;
    *ret_right = NULL;
    if (colon) {
        *colon = '\0';
        *ret_right = colon + 1;
    }
    return left;
}

static int add_file(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    const char *name;
    AUTO_FREE char *path = split(value, &name);
    if (!path)
        return -1;
    if (!name)
        name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    return gb_run_add_host_file(s->run, name, path) ? failed(s) : 0;
}

static int add_env(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    AUTO_FREE char *name = strdup(value);
    char *equals = name ? strchr(name, '=') : NULL;
    if (equals)
        *equals = '\0';
    const char *text = equals ? equals + 1 : name ? getenv(name) : NULL;
    if (!text) {
        complain("--env %.64s: the host's environment has no such name; give NAME=VALUE", value);
        return -1;
    }
    return gb_run_add_env(s->run, name, text) ? failed(s) : 0;
}

static int add_mount(void *context, const struct option_row *row, const char *value)
{
    struct run_state *s = context;
    const char *target;
    AUTO_FREE char *source = split(value, &target);
    if (!source)
        return -1;
    bool writable = !strcmp(row->name, "--writable");
    return gb_run_add_mount(s->run, source, target ? target : source, writable) ? failed(s) : 0;
}

static int set_stdin(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    gb_auto_close(&s->stdin_fd);
    s->stdin_fd = open(value, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (s->stdin_fd < 0 || fstat(s->stdin_fd, &st) || S_ISDIR(st.st_mode)) {
        complain("--stdin %.200s: %s", value, s->stdin_fd < 0 ? strerror(errno) : "is a directory");
        return -1;
    }
    return gb_run_set_stdin(s->run, s->stdin_fd);
}

static int set_rootfs(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    return gb_run_set_rootfs(s->run, value) ? failed(s) : 0;
}

static int set_backend(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    return gb_run_set_backend(s->run, value) ? failed(s) : 0;
}

static int set_cgroup(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    return gb_run_set_cgroup_parent(s->run, value) ? failed(s) : 0;
}

static int set_degraded(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct run_state *s = context;
    return gb_run_allow_degraded(s->run, value) ? failed(s) : 0;
}

static const struct option_row options[] = {
        {"-c", "CODE", "run this code", set_code},
        {"--lang", "NAME",
         "language of FILE or CODE: python, bash, sh, node (default: by FILE's ending, else python)",
         set_lang},
        {"--file", "PATH[:NAME]", "put a copy of this file into the working directory", add_file},
        {"--stdin", "PATH", "the program's input (default: our own)", set_stdin},
        {"--env", "NAME[=VALUE]", "set a variable, or pass the host's", add_env},
        {"--out", "GLOB", "bring back files of the working directory that match", add_output},
        {"--out-dir", "DIR", "where to put them (default: here)", set_out_dir},
        {"--replace", NULL, "let files that come back replace files of the same name", set_replace},
        {"--json", NULL, "print the whole result, receipt included, as JSON", set_json},
        {"--mount", "DIR[:PLACE]", "show a host directory read-only", add_mount},
        {"--writable", "DIR[:PLACE]", "show a host directory that the program may change", add_mount},
        {"--rootfs", "DIR", "use this root file system instead of the host's system directories", set_rootfs},
        {"--backend", "NAME", "what runs the box (native)", set_backend},
        {"--cgroup-parent", "PATH", "make the box's cgroup below this one", set_cgroup},
        {"--allow-degraded", "LAYERS", "comma list of layers that may be missing on this host", set_degraded},
        {"--timeout-seconds", "N", "wall clock (default 30)", set_limit},
        {"--max-cpu-seconds", "N", "cpu time of all its processes (10)", set_limit},
        {"--max-cpu-percent", "N", "share of one core (100)", set_limit},
        {"--max-memory-mb", "N", "memory (256)", set_limit},
        {"--max-disk-mb", "N", "files it may write (100)", set_limit},
        {"--max-pids", "N", "processes and threads (64)", set_limit},
        {"--max-open-files", "N", "open files of each process (256)", set_limit},
        {"--max-output-bytes", "N", "kept of each output stream (1000000)", set_limit},
        {"--help", NULL, "this text (also -h)", set_help},
        {"-h", NULL, NULL, set_help},
};

static int print_help(void)
{
    printf("usage: glovebox run [OPTION…] FILE [ARG…]\n"
           "       glovebox run [OPTION…] -c CODE [ARG…]\n"
           "       glovebox run [OPTION…] -- PROGRAM [ARG…]\n\n"
           "Runs a script, a piece of code or a program in a fresh box: no network, no files but its own, "
           "hard limits.\n\n");
    options_print(options, ARRAY_LEN(options));
    printf("\nexit code: the program's own; 124 timeout, 125 Glovebox could not run it, 126 blocked, 130 "
           "cancelled by a signal, 137 a resource limit\n");
    return finish_output();
}

/* --- what to run --- */

static int load_code(struct run_state *s, const char *path, const char *lang)
{
    AUTO_FREE char *code = malloc(GB_CODE_BYTES + 2);
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (!code || fd < 0)
        return complain("%.200s: %s", path, strerror(errno));
    size_t len = 0;
    while (len <= GB_CODE_BYTES) {
        ssize_t n = read(fd, code + len, GB_CODE_BYTES + 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return complain("%.200s: %s", path, strerror(errno));
        if (n == 0)
            break;
        len += (size_t)n;
    }
    code[len] = '\0';
    return gb_run_set_code(s->run, lang, code, len) ? complain("%.200s: %s", path, gb_run_error(s->run)) : 0;
}

static int set_subject(struct run_state *s, int argc, char **argv, int at, bool dashes)
{
    if (dashes && !s->code) {
        if (at >= argc)
            return complain("nothing after --: which program?");
        if (s->lang)
            return complain("--lang goes with a FILE or -c CODE, not with a program after --");
        return gb_run_set_program(s->run, (const char *const *)argv + at) ? (failed(s), EXIT_GLOVEBOX) : 0;
    }
    int r;
    if (s->code) {
        r = gb_run_set_code(s->run, s->lang ? s->lang : "python", s->code, 0) ? (failed(s), EXIT_GLOVEBOX)
                                                                              : 0;
    } else {
        if (at >= argc)
            return complain("nothing to run; try: glovebox run -c 'print(2 + 2)'");
        const struct gb_runtime *by_name = gb_runtime_by_extension(argv[at]);
        r = load_code(s, argv[at], s->lang ? s->lang : by_name ? by_name->name : "python");
        at++;
    }
    for (; !r && at < argc; at++)
        r = gb_run_add_arg(s->run, argv[at]) ? (failed(s), EXIT_GLOVEBOX) : 0;
    return r;
}

/* --- output --- */

/* While the box runs, only what can be written without waiting is: a slow reader of our output must not hold
 * up the deadline. The rest is kept by the run and written at the end. */
static void stream(void *context, int which, const char *data, size_t len)
{
    (void)data;
    (void)len;
    struct run_state *s = context;
    size_t have;
    const char *all = which ? gb_run_stderr(s->run, &have) : gb_run_stdout(s->run, &have);
    while (s->printed[which] < have) {
        struct pollfd p = {.fd = which + 1, .events = POLLOUT};
        if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
            return;
        size_t step = have - s->printed[which];
        ssize_t n = write(which + 1, all + s->printed[which], step < STREAM_STEP ? step : STREAM_STEP);
        if (n <= 0)
            return;
        s->printed[which] += (size_t)n;
    }
}

static int print_rest(struct run_state *s)
{
    int result = 0;
    for (int which = 0; which < 2; which++) {
        size_t have;
        const char *all = which ? gb_run_stderr(s->run, &have) : gb_run_stdout(s->run, &have);
        int r = gb_fd_write_all(which + 1, all + s->printed[which], have - s->printed[which]);
        if (r == -EPIPE) /* the reader has seen enough, as in `… | head -1` */
            result = EXIT_PIPE;
        else if (r)
            result = complain("cannot write the output: %s", strerror(-r));
    }
    if (gb_run_truncated(s->run))
        complain("output truncated at max_output_bytes");
    if (gb_run_kill_reason(s->run))
        complain("the program was killed: %s (%s)", gb_run_status(s->run), gb_run_kill_reason(s->run));
    return result;
}

/* --- files that come back --- */

static int save_one(const struct run_state *s, int dir, const char *name, const void *data, size_t len)
{
    const char *leaf = name;
    AUTO_FD parent = gb_fd_open_parent(dir, name, &leaf);
    if (parent < 0)
        return parent;
    char temp[64];
    uint64_t salt = 0;
    (void)!getrandom(&salt, sizeof(salt), 0);
    snprintf(temp, sizeof(temp), ".glovebox-%016" PRIx64 ".part", salt);
    AUTO_FD fd = openat(parent, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    int r = gb_fd_write_all(fd, data, len);
    /* A link or directory that stands at the name is replaced or refused as itself, never followed. */
    if (!r && renameat2(parent, temp, parent, leaf, s->replace ? 0 : RENAME_NOREPLACE))
        r = -errno;
    if (r)
        unlinkat(parent, temp, 0);
    return r;
}

static int save_outputs(struct run_state *s)
{
    const char *name, *skipped;
    const void *data;
    size_t len;
    int result = 0;
    AUTO_FD dir = open(s->out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return complain("--out-dir %.200s: %s", s->out_dir, strerror(errno));
    for (size_t i = 0; !gb_run_output(s->run, i, &name, &data, &len, &skipped); i++) {
        int r = skipped ? 0 : save_one(s, dir, name, data, len);
        if (skipped)
            result = complain("output '%.200s' %s; not brought back", name, skipped);
        else if (r)
            result = complain("output '%.200s' not written: %s%s", name, strerror(-r),
                              r == -EEXIST ? " (--replace overwrites)" : "");
    }
    return result;
}

/* What would be refused at the end is refused before the start. */
static int check_outputs(struct run_state *s)
{
    if (!s->output_count)
        return 0;
    AUTO_FD dir = open(s->out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return complain("--out-dir %.200s: %s", s->out_dir, strerror(errno));
    if (faccessat(dir, ".", W_OK | X_OK, AT_EACCESS))
        return complain("--out-dir %.200s: %s", s->out_dir, strerror(errno));
    for (size_t i = 0; !s->replace && i < s->output_count; i++)
        if (gb_outputs_is_exact(s->outputs[i]) && !faccessat(dir, s->outputs[i], F_OK, AT_SYMLINK_NOFOLLOW))
            return complain("output '%.200s' exists already; --replace overwrites it", s->outputs[i]);
    return 0;
}

/* --- the verb --- */

static const int cancelling[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static int open_cancel(struct gb_run *run, sigset_t *ret_mask)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(cancelling); i++)
        sigaddset(&set, cancelling[i]);
    sigprocmask(SIG_BLOCK, &set, ret_mask);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0)
        gb_run_set_cancel(run, fd);
    else
        sigprocmask(SIG_SETMASK, ret_mask, NULL); /* better killed by a signal than deaf to it */
    return fd;
}

/* The box is gone: the signal that ended it has done its work, and the next one is for us again. */
static void close_cancel(int fd, const sigset_t *mask)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof(info)) > 0)
        ;
    sigprocmask(SIG_SETMASK, mask, NULL);
}

static int print_result(struct run_state *s)
{
    if (!s->json)
        return print_rest(s);
    const char *json = gb_run_json(s->run);
    int r = json ? gb_fd_write_all(1, json, strlen(json)) : -ENOMEM;
    return r == -EPIPE ? EXIT_PIPE : r ? complain("cannot write the result: %s", strerror(-r)) : 0;
}

static int start(struct run_state *s)
{
    sigset_t mask;
    AUTO_FD cancel = open_cancel(s->run, &mask);
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL); /* files must come back even if nobody reads our output */
    if (s->stdin_fd < 0)
        gb_run_set_stdin(s->run, 0);
    if (!s->json)
        gb_run_on_output(s->run, stream, s);
    int r = gb_run_start(s->run);
    close_cancel(cancel, &mask);
    if (r)
        return complain("%s", gb_run_error(s->run));
    int saved = s->output_count ? save_outputs(s) : 0;
    int printed = print_result(s);
    int code = gb_run_exit_code(s->run);
    return printed ? printed : code ? code : saved;
}

int verb_run(int argc, char **argv)
{
    static struct run_state s; /* the end of the process gives back what it owns, all at once */
    s = (struct run_state){.run = gb_run_new(), .out_dir = ".", .stdin_fd = -1};
    if (!s.run)
        return complain("out of memory");
    bool dashes;
    const char *parent = getenv("GLOVEBOX_CGROUP_PARENT");
    int at = parent && gb_run_set_cgroup_parent(s.run, parent)
                     ? failed(&s)
                     : options_parse(options, ARRAY_LEN(options), argc, argv, &s, &dashes);
    int r = EXIT_GLOVEBOX;
    if (at >= 0 && s.help)
        r = print_help();
    else if (at >= 0 && !(r = set_subject(&s, argc, argv, at, dashes)) && !(r = check_outputs(&s)))
        r = start(&s);
    return r;
}
