#include "launch/keeper.h"

#include "backend/backend.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/steps.h"
#include "screen/start.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BASE_ENV 16 /* room for gb_spec_env */

/* What the keeper works on. Static: it has one run, and its pages cost nothing before they are touched. */
struct keeper {
    const struct gb_run *run;
    struct gb_payload payload;
    const char *env[BASE_ENV + GB_PAYLOAD_STRINGS + 1];
    struct gb_file files[GB_PAYLOAD_FILES + GB_PYTHON_START_FILES];
    struct gb_spec spec;
    struct gb_result result;
};

void gb_keeper_spec(const struct gb_run *run, struct gb_spec *ret_spec)
{
    const struct gb_msg_ceiling *ceiling = &run->ceiling;
    *ret_spec = (struct gb_spec){
            .runtime = run->ask.runtime ? gb_runtimes[run->ask.runtime - 1].name : NULL,
            .limits = run->ask.limits,
            .cgroup_parent = *ceiling->cgroup_parent ? ceiling->cgroup_parent : NULL,
            .degraded = *ceiling->degraded ? ceiling->degraded : NULL,
            .stdin_fd = -1,
            .cancel_fd = -1,
            .out_fd = {-1, -1},
    };
}

/* --- descriptors --- */

/* Input is a file in memory. Must not: be something that could make a read wait: while we wait, nobody looks
 * at the clock of the box. */
static int take_stdin(struct keeper *k, struct gb_err *err)
{
    if (k->run->fd_count <= GB_RUN_STDIN)
        return 0;
    const int fd = k->run->fd[GB_RUN_STDIN];
    if (fcntl(fd, F_GET_SEALS) < 0 || lseek(fd, 0, SEEK_SET) != 0)
        return gb_err_set(err, GB_ERR_USAGE, 0, "stdin of a box must be a memfd");
    k->spec.stdin_fd = fd;
    return 0;
}

/* --- what to run --- */

static bool is_replaced(const struct gb_payload *p, const char *variable)
{
    const size_t len = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < p->envc; i++)
        if (!strncmp(p->env[i], variable, len))
            return true;
    return false;
}

static void fill_env(struct keeper *k)
{
    size_t count = 0;
    for (size_t i = 0; i < gb_spec_env_count && i < BASE_ENV; i++)
        if (!is_replaced(&k->payload, gb_spec_env[i]))
            k->env[count++] = gb_spec_env[i];
    for (size_t i = 0; i < k->payload.envc; i++)
        k->env[count++] = k->payload.env[i];
    k->env[count] = NULL;
    k->spec.env = k->env;
}

/* Those of the call, and our own start-up code where the call's interpreter needs it. */
static void fill_files(struct keeper *k)
{
    const struct gb_payload *p = &k->payload;
    memcpy(k->files, p->files, p->file_count * sizeof(*k->files));
    k->spec.files = k->files;
    k->spec.file_count = p->file_count;
    if (!(k->run->ask.flags & GB_RUN_START_CODE))
        return;
    gb_python_start_files(&k->files[k->spec.file_count]);
    k->spec.file_count += GB_PYTHON_START_FILES;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Nothing of anybody's: the payload is not even looked at, and it gets as little as a box can do with. */
static int prepare_probe(struct keeper *k, const struct gb_limits *most)
{
    static const char *const argv[] = {"true", NULL};
    k->spec.argv = argv;
    k->spec.limits = (struct gb_limits){.timeout_ms = lesser(10000, most->timeout_ms),
                                        .cpu_ms = lesser(2000, most->cpu_ms),
                                        .cpu_percent = lesser(100, most->cpu_percent),
                                        .memory_mb = lesser(32, most->memory_mb),
                                        .disk_mb = 1,
                                        .pids = lesser(4, most->pids),
                                        .open_files = lesser(32, most->open_files),
                                        .output_bytes = 0};
    return 0;
}

static int prepare_call(struct keeper *k, struct gb_err *err)
{
    const struct gb_payload *p = &k->payload;
    int r = gb_payload_open(k->run->fd[GB_RUN_PAYLOAD], k->run->ask.payload_bytes, &k->payload, err);
    if (r)
        return r;
    if (!p->argc)
        return gb_err_set(err, GB_ERR_USAGE, 0, "payload: there is nothing to run");
    for (size_t i = 0; i < p->file_count; i++)
        if (!p->files[i].data)
            return gb_err_set(err, GB_ERR_USAGE, 0, "payload: a file for the box has no bytes");
    k->spec.argv = p->argv;
    fill_files(k);
    k->spec.outputs = p->outputs;
    k->spec.output_count = p->output_count;
    return take_stdin(k, err);
}

static int prepare(struct keeper *k, struct gb_err *err)
{
    k->spec.cancel_fd = k->run->fd[GB_RUN_SOCKET];
    k->spec.out_fd[0] = k->run->fd[GB_RUN_STDOUT];
    k->spec.out_fd[1] = k->run->fd[GB_RUN_STDERR];
    int r = k->run->ask.flags & GB_RUN_PROBE ? prepare_probe(k, &k->run->ceiling.limits)
                                             : prepare_call(k, err);
    fill_env(k);
    return r;
}

/* --- the answer --- */

/* The row that tells that the rest was not looked at carries the directory where that happened. */
static void add_name(struct gb_buf *b, const char *name)
{
    char text[1024];
    size_t len = strlen(name);
    while (len > 0 && name[len - 1] == '/')
        len--;
    snprintf(text, sizeof(text), "%.*s", (int)len, len ? name : ".");
    gb_payload_add_text(b, GB_ITEM_NAME, len ? text : "*");
}

/* The files as a payload, or -errno. Each is given back as soon as it is copied. */
static int pack_files(struct gb_result *result)
{
    struct gb_buf b = {.max = GB_PAYLOAD_BYTES};
    for (size_t i = 0; i < result->file_count; i++) {
        struct gb_output *f = &result->files[i];
        add_name(&b, f->name);
        if (f->skipped)
            gb_payload_add_text(&b, GB_ITEM_SKIPPED, f->skipped);
        else
            gb_payload_add(&b, GB_ITEM_DATA, f->data, f->len);
        free(TAKE_PTR(f->data));
    }
    int fd = gb_payload_seal(&b);
    gb_buf_done(&b);
    return fd;
}

static int send_done(struct keeper *k)
{
    const struct gb_result *r = &k->result;
    struct gb_err err = {0};
    struct gb_msg_done done = {.status = (int32_t)r->status,
                               .exit_code = r->exit_code,
                               .signal = r->signal,
                               .file_count = (uint32_t)r->file_count,
                               .usage = r->usage};
    snprintf(done.kill_reason, sizeof(done.kill_reason), "%s", r->kill_reason ? r->kill_reason : "");
    AUTO_FD files = r->file_count ? pack_files(&k->result) : -1;
    if (r->file_count && files < 0) {
        gb_err_set(&err, GB_ERR_BUSY, -files, "bring back the files of the box");
        return gb_run_fail(k->run, &err);
    }
    struct gb_buf receipt = {.max = gb_msg_shapes[GB_MSG_RUN_DONE].tail_most};
    if (*r->enforced.policy_hash)
        gb_receipt_to_json(&r->enforced, gb_step_name, &receipt);
    else
        gb_buf_puts(&receipt, "null"); /* cancelled before the box was whole: nothing can be claimed */
    int sent = gb_msg_send(k->run->fd[GB_RUN_SOCKET], GB_MSG_RUN_DONE, k->run->tag, &done, receipt.data,
                           receipt.len, &files, files >= 0);
    gb_buf_done(&receipt);
    return sent;
}

/* --- its life --- */

/* Should: die with the launcher, from the first moment. */
static void settle(const struct gb_run *run, pid_t launcher)
{
    sigset_t none;
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != launcher)
        _exit(1);
    prctl(PR_SET_NAME, "glovebox-keeper", 0, 0, 0);
    /* An ordinary user may write the id maps of its child only if that, and so we, can be looked at. */
    if (geteuid() != 0)
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    /* The launcher's channels are not a box's business, and the end of a socket that a keeper holds open
     * would hide the launcher's death from those at the other end. */
    gb_fd_close_others(run->fd, run->fd_count);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void gb_keeper_main(const struct gb_run *run, pid_t launcher)
{
    static struct keeper k;
    settle(run, launcher);
    k.run = run;
    gb_keeper_spec(run, &k.spec);
    struct gb_err err = {0};
    int r = prepare(&k, &err);
    if (!r)
        r = gb_backend_native.run(&k.spec, NULL, NULL, &k.result, &err);
    if (r && err.code == GB_ERR_NONE)
        gb_err_set(&err, GB_ERR_INTERNAL, -r, "run the box");
    int sent = r ? gb_run_fail(run, &err) : send_done(&k);
    /* A front that has hung up wants no answer. */
    if (sent && sent != -EPIPE && sent != -ECONNRESET)
        gb_log(GB_LOG_WARN, "a run could not be answered", GB_S("id", run->ask.id),
               GB_S("error", strerror(-sent)));
    _exit(0);
}
