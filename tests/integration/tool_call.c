/* Calls tools without a service around them. Each line of standard input is an object with kind, spec,
 * arguments, and optionally secrets (name to value). Each runs in a process of its own, as in
 * the broker; each is answered by one line with result, failed, denials and error (and signal, if the process
 * died of one). For tests/tools. The process is confined as the broker's are, so that what a tool needs and
 * is not allowed shows here; but not with sanitizers, which look for leaks at the end. */
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "broker/kind.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_BYTES  ((rlim_t)512 << 20) /* as the broker's children have */
#define GRACE_SECONDS 2                   /* likewise */

static const struct {
    const char *name;
    enum gb_tool_kind kind;
    int (*run)(struct tool_call *call, struct gb_err *err);
} kinds[] = {
        {"sql", GB_TOOL_SQL, tool_sql},
        {"http", GB_TOOL_HTTP, tool_http},
        {"email", GB_TOOL_EMAIL, tool_email},
};

static void set_limits(double seconds)
{
    const struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds + 1 + GRACE_SECONDS}};
    setitimer(ITIMER_REAL, &timer, NULL);
#ifndef __SANITIZE_ADDRESS__ /* which maps terabytes */
    const struct rlimit limit = {MEMORY_BYTES, MEMORY_BYTES};
    if (setrlimit(RLIMIT_AS, &limit))
        _exit(1);
#endif
}

static int confine(const struct gb_tool *tool, struct gb_err *err)
{
#ifdef __SANITIZE_ADDRESS__
    (void)tool;
    (void)err;
    return 0;
#else
    return kind_confine(kind_find(tool), tool, getppid(), NULL, err);
#endif
}

static void add_secrets(struct gb_policy *policy, const json_t *secrets)
{
    const char *name;
    json_t *value;
    policy->secrets = calloc(json_object_size(secrets) + 1, sizeof(*policy->secrets));
    json_object_foreach((json_t *)secrets, name, value)
        policy->secrets[policy->secret_count++] =
                (struct gb_secret){.name = name, .value = json_string_value(value)};
}

static json_t *answer(const struct tool_call *call, int r, const struct gb_err *err)
{
    AUTO_BUF text = {.max = 65536};
    struct gb_json j = {.out = &text, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_denials_to_json(&j, "denials", call->denials, call->denial_count);
    gb_json_close(&j, '}');
    json_t *out = json_loadb(text.data, text.len, 0, NULL);
    json_object_set_new(out, "failed", json_boolean(call->failed));
    json_object_set_new(out, "result", call->result ? json_incref(call->result) : json_null());
    json_object_set_new(out, "error",
                        r ? json_pack("{s:s, s:s}", "code", gb_err_name(err->code), "text", err->text)
                          : json_null());
    return out;
}

/* In the child: makes the call, and writes the line. */
static int make_call(const json_t *line)
{
    struct gb_policy policy = {0};
    struct gb_tool tool = {.name = "tool", .spec = json_object_get(line, "spec")};
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const json_t *timeout = json_object_get(tool.spec, "timeout_seconds");
    const double seconds = timeout ? json_number_value(timeout) : 10;
    struct tool_call call = {
            .policy = &policy, .tool = &tool, .arguments = json_object_get(line, "arguments")};
    struct gb_err err = {0};
    int r = -1;
    call.deadline_us = gb_clock_us() + (int64_t)(seconds * 1e6);
    add_secrets(&policy, json_object_get(line, "secrets"));
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kind && !strcmp(kinds[i].name, kind)) {
            tool.kind = kinds[i].kind;
            set_limits(seconds);
            r = confine(&tool, &err);
            if (!r)
                r = kinds[i].run(&call, &err);
        }
    AUTO_JSON out = answer(&call, r, &err);
    json_decref(call.result);
    free(policy.secrets);
    return json_dumpfd(out, STDOUT_FILENO, JSON_COMPACT | JSON_REAL_PRECISION(15)) ||
           write(STDOUT_FILENO, "\n", 1) != 1;
}

int main(void)
{
    char *text = NULL;
    size_t size = 0;
    while (getline(&text, &size, stdin) > 0) {
        AUTO_JSON line = json_loads(text, JSON_ALLOW_NUL, NULL);
        int status;
        if (!line)
            return 1;
        const pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (!pid) {
            const int r = make_call(line);
            json_decref(line);
            line = NULL;
            free(text);
            exit(r); /* not _exit: leaks are looked for */
        }
        if (waitpid(pid, &status, 0) != pid)
            return 1;
        if (WIFSIGNALED(status))
            printf("{\"signal\": %d}\n", WTERMSIG(status));
        else if (WEXITSTATUS(status))
            printf("{\"exit\": %d}\n", WEXITSTATUS(status));
        fflush(stdout);
    }
    free(text);
    return 0;
}
