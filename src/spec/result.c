#include "spec/result.h"

#include "base/auto.h"
#include "base/text.h"

#include <string.h>

static const struct {
    const char *name;
    int exit_code;
} statuses[GB_STATUS_COUNT] = {
#define GB_STATUS(name, text, exit_code) [GB_STATUS_##name] = {text, exit_code},
#include "spec/status.def"
#undef GB_STATUS
};

const char *gb_status_name(enum gb_status status)
{
    return (unsigned)status < GB_STATUS_COUNT ? statuses[status].name : "unknown";
}

int gb_result_exit_code(const struct gb_result *r)
{
    if (statuses[r->status].exit_code)
        return statuses[r->status].exit_code;
    return r->signal ? 128 + r->signal : r->exit_code;
}

static void steps_to_json(struct gb_json *j, const char *key, uint64_t mask,
                          const char *(*step_name)(unsigned))
{
    gb_json_open(j, key, '[');
    for (unsigned i = 0; i < 64; i++)
        if (mask >> i & 1)
            gb_json_text(j, NULL, step_name(i));
    gb_json_close(j, ']');
}

static bool has_step(uint64_t mask, const char *name, const char *(*step_name)(unsigned))
{
    for (unsigned i = 0; i < 64; i++)
        if ((mask >> i & 1) && !strcmp(step_name(i), name))
            return true;
    return false;
}

const char *gb_start_name(enum gb_start start)
{
    static const char *const names[GB_START_COUNT] = {
            [GB_START_COLD] = "cold", [GB_START_BUILT] = "built", [GB_START_WAITING] = "waiting"};
    return names[start];
}

void gb_receipt_to_json(const struct gb_receipt *e, const char *(*step_name)(unsigned), struct gb_buf *out)
{
    struct gb_json writer = {.out = out, .first = true}, *j = &writer;
    gb_json_open(j, NULL, '{');
    gb_json_text(j, "backend", e->backend);
    steps_to_json(j, "steps", e->applied, step_name);
    steps_to_json(j, "degraded", e->degraded, step_name);
    gb_json_text(j, "root", e->root);
    gb_json_text(j, "start", gb_start_name(e->start));
    gb_json_text(j, "network", has_step(e->applied, "ns-net", step_name) ? "none" : "host");
    gb_json_text(j, "seccomp", e->seccomp_profile);
    gb_json_int(j, "landlock_abi", e->landlock_abi);
    gb_json_open(j, "cgroup", '{');
    gb_json_int(j, "version", e->cgroup_version);
    gb_json_text(j, "controllers", e->controllers);
    gb_json_close(j, '}');
    gb_json_int(j, "host_uid", e->host_uid);
    gb_json_int(j, "supplementary_groups", e->extra_groups);
    gb_json_open(j, "limits", '{');
    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        if (!e->cgroup_version && row->offset == offsetof(struct gb_limits, cpu_percent))
            gb_json_null(j, row->key); /* nothing else enforces it */
        else
            gb_json_decimal(j, row->key, gb_limits_get(&e->limits, row), row->decimals);
    }
    gb_json_close(j, '}');
    /* Without a cgroup, memory, cpu time and open files are bounded for each process alone. */
    gb_json_text(j, "limits_hold_for", e->cgroup_version ? "box" : "process");
    gb_json_text(j, "policy_hash", e->policy_hash);
    gb_json_close(j, '}');
}

void gb_usage_to_json(struct gb_json *j, const char *key, const struct gb_usage *u)
{
    gb_json_open(j, key, '{');
    gb_json_decimal(j, "cpu_ms", u->cpu_us, 3);
    gb_json_decimal(j, "wall_ms", u->wall_us, 3);
    gb_json_decimal(j, "memory_peak_mb", u->memory_peak_bytes * 1000 / (1 << 20), 3);
    if (u->pids_peak < 0)
        gb_json_null(j, "pids_peak");
    else
        gb_json_int(j, "pids_peak", u->pids_peak);
    gb_json_int(j, "disk_bytes", u->disk_bytes);
    gb_json_int(j, "stdout_bytes", (int64_t)u->stdout_bytes);
    gb_json_int(j, "stderr_bytes", (int64_t)u->stderr_bytes);
    gb_json_close(j, '}');
}

void gb_result_end_to_json(struct gb_json *j, const struct gb_result *r)
{
    gb_json_text(j, "status", gb_status_name(r->status));
    if (r->exit_code < 0)
        gb_json_null(j, "exit_code");
    else
        gb_json_int(j, "exit_code", r->exit_code);
    if (r->signal)
        gb_json_int(j, "signal", r->signal);
    else
        gb_json_null(j, "signal");
    gb_json_bool(j, "was_killed", r->kill_reason != NULL);
    if (r->kill_reason)
        gb_json_text(j, "kill_reason", r->kill_reason);
    else
        gb_json_null(j, "kill_reason");
}

static void file_to_json(struct gb_json *j, const struct gb_output *f, bool contents)
{
    gb_json_open(j, NULL, '{');
    gb_json_text(j, "name", f->name);
    if (f->skipped)
        gb_json_text(j, "skipped", f->skipped);
    else
        gb_json_int(j, "bytes", (int64_t)f->len);
    if (contents && f->data) {
        if (gb_text_find_binary(f->data, f->len) == f->len)
            gb_json_bytes(j, "text", f->data, f->len);
        else
            gb_json_base64(j, "base64", f->data, f->len);
    }
    gb_json_close(j, '}');
}

void gb_result_to_json(const struct gb_result *r, const struct gb_result_form *form, struct gb_buf *out)
{
    struct gb_json j = {.out = out, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_bool(&j, "success", r->status == GB_STATUS_SUCCESS);
    if (form->id)
        gb_json_text(&j, "id", form->id);
    gb_result_end_to_json(&j, r);
    gb_json_bytes(&j, form->out_key, r->out.data, r->out.len);
    gb_json_bytes(&j, form->err_key, r->err.data, r->err.len);
    gb_json_bool(&j, "truncated", gb_buf_truncated(&r->out) || gb_buf_truncated(&r->err));
    gb_json_decimal(&j, "execution_time_ms", r->usage.wall_us, 3);
    gb_usage_to_json(&j, "resource_usage", &r->usage);
    gb_json_open(&j, "files", '[');
    for (size_t i = 0; i < r->file_count; i++)
        file_to_json(&j, &r->files[i], form->contents);
    gb_json_close(&j, ']');
    if (form->more)
        form->more(&j, form->context);
    if (form->enforced)
        gb_json_raw(&j, "enforced", form->enforced, strlen(form->enforced));
    gb_json_close(&j, '}');
    gb_buf_puts(out, "\n");
}

void gb_result_done(struct gb_result *r)
{
    for (size_t i = 0; i < r->file_count; i++) {
        free(r->files[i].name);
        free(r->files[i].data);
    }
    free(r->files);
    gb_buf_done(&r->out);
    gb_buf_done(&r->err);
    *r = (struct gb_result){0};
}
