#include "front/record.h"

#include "front/approval.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What both begin with. */
static void write_tool(struct gb_json *j, const struct call *call)
{
    gb_json_text(j, "tool", call->tool->name);
    gb_json_text(j, "kind", gb_tool_kinds[call->tool->kind]);
    if (call->request.runtime)
        gb_json_text(j, "language", call->request.runtime->name);
    gb_json_text(j, "arguments_sha256", call->arguments_sha256);
    gb_json_text(j, "policy", call->policy->gb->sha256);
}

static void write_reasons(struct gb_json *j, const struct call *call)
{
    gb_denials_to_json(j, "denials", call->denials, call->denial_count);
    gb_json_open(j, "findings", '[');
    for (size_t i = 0; i < call->finding_count; i++) {
        gb_json_open(j, NULL, '{');
        gb_json_text(j, "rule", call->findings[i].rule);
        gb_json_int(j, "line", call->findings[i].line);
        gb_json_text(j, "action", gb_screen_names[call->findings[i].action]);
        gb_json_close(j, '}');
    }
    gb_json_close(j, ']');
    if (call->approval)
        gb_json_text(j, "approval", approval_id(call->approval));
}

static void intent_text(const struct call *call, struct gb_buf *out)
{
    static const char *const decisions[] = {
            [CALL_ALLOW] = "allow", [CALL_BLOCK] = "block", [CALL_ASK] = "ask"};
    struct gb_json j = {.out = out, .first = true};
    gb_json_open(&j, NULL, '{');
    write_tool(&j, call);
    gb_json_text(&j, "route", call->route);
    gb_json_text(&j, "client", call->by_unix ? "unix" : "tcp");
    gb_json_text(&j, "request_id", call->request_id);
    if (call_is_boxed(call))
        gb_limits_to_json(&j, "limits", &call->request.limits);
    if (call->request.raw)
        gb_json_bool(&j, "raw", true);
    gb_json_text(&j, "profile", call->profile->name);
    gb_json_text(&j, "decision", decisions[call->decision]);
    write_reasons(&j, call);
    gb_json_close(&j, '}');
}

static void outcome_text(const struct call *call, struct gb_buf *out)
{
    struct gb_json j = {.out = out, .first = true};
    gb_json_open(&j, NULL, '{');
    write_tool(&j, call);
    gb_result_end_to_json(&j, &call->result);
    if (call->err.code != GB_ERR_NONE) {
        gb_json_text(&j, "error", gb_err_name((enum gb_error_code)call->err.code));
        gb_json_text(&j, "step", call->err.step);
    }
    write_reasons(&j, call);
    gb_json_decimal(&j, "execution_time_ms", call->result.usage.wall_us, 3);
    gb_usage_to_json(&j, "resource_usage", &call->result.usage);
    gb_json_int(&j, "redactions", (int64_t)call->redactions);
    gb_json_bool(&j, "truncated", gb_buf_truncated(&call->result.out) || gb_buf_truncated(&call->result.err));
    gb_json_int(&j, "files", (int64_t)call->result.file_count);
    const char *enforced = call->enforced ? call->enforced : "null";
    gb_json_raw(&j, "enforced", enforced, strlen(enforced));
    gb_json_close(&j, '}');
}

static struct gb_msg_append describe(const struct call *call, enum gb_record_kind kind, uint32_t calls,
                                     int64_t cpu_us)
{
    struct gb_msg_append what = {.kind = kind, .calls = calls, .cpu_us = cpu_us};
    snprintf(what.id, sizeof(what.id), "%s", call->id);
    snprintf(what.principal, sizeof(what.principal), "%s", call->principal);
    if (calls || cpu_us)
        snprintf(what.tool, sizeof(what.tool), "%s", call->tool->name);
    return what;
}

/* A call that a budget was taken for counts from here on, restart or not. */
int record_intent(struct call *call)
{
    AUTO_BUF body = {.max = RECORD_MOST};
    struct gb_msg_append what = describe(call, GB_RECORD_INTENT, call->budgeted ? 1 : 0, 0);
    intent_text(call, &body);
    int r = call->unawaited ? audit_append_quiet(call->front, &what, &body, &call->intent_tag) : -EAGAIN;
    if (r != -EAGAIN)
        return r;
    call->unawaited = false;
    return audit_append_use(call->front, &call->wait, &what, &body);
}

int record_outcome(struct call *call)
{
    AUTO_BUF body = {.max = RECORD_MOST};
    const struct gb_msg_append what =
            describe(call, GB_RECORD_OUTCOME, 0, call->budgeted ? call->result.usage.cpu_us : 0);
    outcome_text(call, &body);
    return audit_append_use(call->front, &call->wait, &what, &body);
}
