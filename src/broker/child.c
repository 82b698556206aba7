#include "broker/child.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "broker/generation.h"
#include "broker/kind.h"
#include "wire/payload.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>

#define SECOND         1000000LL
#define ARGUMENTS_MOST ((off_t)64 << 20)
#define RESULT_MOST                                                                                          \
    ((size_t)17 << 20) /* as JSON: what a tool may give back, and room for what is around it */

/* --- configuration, confinement: nothing of a caller's is looked at before the end of this --- */

static int read_policy(int fd, struct gb_policy **ret, struct gb_err *err)
{
    const char *text = NULL;
    size_t bytes = 0;
    AUTO_CONFIG config = NULL;
    int r = generation_map(fd, &text, &bytes, err);
    if (r)
        return r;
    r = gb_config_from_json(text, bytes, &config, err);
    munmap((void *)text, bytes);
    if (!r)
        r = gb_policy_new(config, GB_POLICY_BROKER, ret, err);
    if (r)
        gb_err_wrap(err, "the broker cannot use the configuration");
    return r;
}

static bool uses_secret(const char *spec, const char *name)
{
    char mark[128];
    snprintf(mark, sizeof(mark), "{secret:%s}", name);
    return strstr(spec, mark);
}

/* Whoever captures this process later should find what its own call needs, and not the secrets of other
 * tools. (The configuration is freed by now, and what was freed is overwritten: child_main.) */
static int forget_secrets(const struct gb_policy *policy, const struct gb_tool *tool, struct gb_err *err)
{
    AUTO_FREE char *spec = json_dumps(tool->spec, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!spec)
        return gb_err_set(err, GB_ERR_BUSY, ENOMEM, "look at the tool");
    for (size_t i = 0; i < policy->secret_count; i++) {
        const struct gb_secret *s = &policy->secrets[i];
        if (s->value && !uses_secret(spec, s->name))
            explicit_bzero((char *)s->value, strlen(s->value)); /* the policy is this process's own */
    }
    return 0;
}

/* Whatever blocks, and whatever does not look at the deadline (a name server that is silent, a library): the
 * kernel ends it. There is no call left to take this back. */
static int set_clock(int64_t us, struct gb_err *err)
{
    const struct itimerval timer = {.it_value = {.tv_sec = us / SECOND, .tv_usec = us % SECOND}};
    return setitimer(ITIMER_REAL, &timer, NULL) ? gb_err_set(err, GB_ERR_INTERNAL, errno, "set a timer") : 0;
}

/* --- arguments --- */

static int read_arguments(int fd, json_t **ret, struct gb_err *err)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || size > ARGUMENTS_MOST)
        return gb_err_set(err, GB_ERR_USAGE, 0, "arguments: none, or more than %lld bytes",
                          (long long)ARGUMENTS_MOST);
    int r = gb_payload_check(fd, (uint64_t)size, err);
    if (r)
        return r;
    const char *text = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        return gb_err_set(err, GB_ERR_BUSY, errno, "map the arguments");
    AUTO_JSON value = NULL;
    r = gb_json_read(text, (size_t)size, &value, err);
    munmap((void *)text, (size_t)size);
    if (r) {
        gb_err_wrap(err, "arguments");
        return r;
    }
    if (!json_is_object(value))
        return gb_err_set(err, GB_ERR_USAGE, 0, "arguments: they must be an object");
    *ret = TAKE_PTR(value);
    return 0;
}

/* Once more, by the broker's own copy of the policy: the front that has said so already may be captured. */
static void check_arguments(struct tool_call *call)
{
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    const size_t count = gb_schema_check(call->tool->schema, call->arguments, "arguments", problems);
    for (size_t i = 0; i < count && i < GB_SCHEMA_PROBLEMS; i++)
        gb_denial_add(call->denials, &call->denial_count, GB_DENIAL_ARGUMENTS, NULL, "%s %s",
                      problems[i].path, problems[i].text);
}

/* --- the answer --- */

static int add_text(const char *text, size_t len, void *context)
{
    struct gb_buf *b = context;
    return gb_buf_add(b, text, len) == len ? 0 : -1;
}

/* A memory file, or negative with the error set. Numbers with all their digits: the front rounds them, when
 * it has looked for secrets in them. */
static int pack_result(const json_t *result, struct gb_err *err)
{
    struct gb_buf b = {.max = RESULT_MOST};
    int fd = -EFBIG;
    if (!json_dump_callback(result, add_text, &b, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)))
        fd = gb_payload_seal(&b);
    if (fd < 0 && gb_buf_truncated(&b))
        gb_err_set(err, GB_ERR_UPSTREAM, 0, "the result takes more than %zu bytes as JSON", RESULT_MOST);
    else if (fd < 0)
        gb_err_set(err, GB_ERR_BUSY, -fd, "keep the result");
    gb_buf_done(&b);
    return fd;
}

static int send_failed(const struct child *child, const struct gb_err *err)
{
    const struct gb_msg_failed failed = {.err = *err};
    return gb_msg_send(child->socket, GB_MSG_TOOL_FAILED, child->tag, &failed, NULL, 0, NULL, 0);
}

static int send_done(const struct child *child, const struct tool_call *call, int64_t wall_us)
{
    struct gb_err err = {0};
    struct gb_msg_tool_done done = {
            .failed = call->failed, .denial_count = (uint32_t)call->denial_count, .wall_us = wall_us};
    memcpy(done.denials, call->denials, sizeof(done.denials));
    AUTO_FD fd = -1;
    if (!call->denial_count && call->result) {
        fd = pack_result(call->result, &err);
        if (fd < 0)
            return send_failed(child, &err);
    }
    /* The kernel holds the descriptors that are on their way, of all processes of our user, against our own
     * limit on open files, and many calls may end at once. Our clock is set. */
    const struct timespec moment = {.tv_nsec = 1000000};
    int r;
    while ((r = gb_msg_send(child->socket, GB_MSG_TOOL_DONE, child->tag, &done, NULL, 0, &fd, fd >= 0)) ==
           -ETOOMANYREFS)
        nanosleep(&moment, NULL);
    return r;
}

/* --- all of it --- */

static int prepare(const struct child *child, struct tool_call *call, const struct kind **ret_kind,
                   struct gb_err *err)
{
    struct gb_policy *policy = NULL;
    int r = read_policy(child->config, &policy, err);
    if (r)
        return r;
    close(child->config);
    call->policy = policy;
    call->tool = gb_policy_tool(policy, child->ask->tool);
    const struct kind *kind = call->tool ? kind_find(call->tool) : NULL;
    if (!kind)
        return gb_err_set(err, GB_ERR_USAGE, 0, "there is no tool '%s' that the broker could call",
                          child->ask->tool);
    const int64_t us = kind_time_us(kind, call->tool);
    call->deadline_us = gb_clock_us() + us;
    *ret_kind = kind;
    gb_json_seed();
    r = forget_secrets(policy, call->tool, err);
    if (!r)
        r = set_clock(us + KIND_GRACE_US, err);
    return r ? r : kind_confine(kind, call->tool, child->parent, child->degraded, err);
}

static int work(const struct child *child, struct tool_call *call, struct gb_err *err)
{
    const struct kind *kind = NULL;
    json_t *arguments = NULL;
    int r = prepare(child, call, &kind, err);
    if (!r)
        r = read_arguments(child->arguments, &arguments, err);
    if (r || !kind)
        return r ? r : -EINVAL;
    call->arguments = arguments;
    check_arguments(call);
    return call->denial_count ? 0 : kind->run(call, err);
}

void child_main(const struct child *child)
{
    static struct tool_call call; /* nothing is freed: the process is */
    struct gb_err err = {0};
    const int64_t begun = gb_clock_us();
    const int keep[] = {child->socket, child->arguments, child->config};
    gb_fd_close_others(keep, ARRAY_LEN(keep));
    mallopt(M_PERTURB, 0x5a); /* from here on, what is freed is overwritten */
    prctl(PR_SET_NAME, "glovebox-call", 0, 0, 0);
    int r = work(child, &call, &err);
    if (r && err.code == GB_ERR_NONE)
        gb_err_set(&err, GB_ERR_INTERNAL, -r, "the tool failed without saying why");
    if (r)
        gb_log(GB_LOG_WARN, "a call failed", GB_S("id", child->ask->id), GB_S("tool", child->ask->tool),
               GB_S("error", err.text));
    r = r ? send_failed(child, &err) : send_done(child, &call, gb_clock_us() - begun);
    _exit(r ? 1 : 0);
}
