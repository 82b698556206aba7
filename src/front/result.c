#include "front/result.h"

#include "base/auto.h"
#include "base/text.h"
#include "front/approval.h"

#include <string.h>

#define SEEDS_CHARS 5000
#define SEEDS_CUT   "\n... [output truncated]"

bool result_may_change(const struct call *call)
{
    for (size_t i = 0; i < call->denial_count; i++)
        if (call->denials[i].code >= GB_DENIAL_BUDGET && call->denials[i].code <= GB_DENIAL_APPROVAL_MISMATCH)
            return true;
    return false;
}

static void write_screen(struct gb_json *j, const struct call *call)
{
    gb_json_open(j, "screen", '{');
    gb_json_open(j, "findings", '[');
    for (size_t i = 0; i < call->finding_count; i++) {
        const struct gb_finding *f = &call->findings[i];
        gb_json_open(j, NULL, '{');
        gb_json_text(j, "rule", f->rule);
        gb_json_int(j, "line", f->line);
        gb_json_text(j, "reason", f->reason);
        gb_json_text(j, "action", gb_screen_names[f->action]);
        gb_json_close(j, '}');
    }
    gb_json_close(j, ']');
    gb_json_close(j, '}');
}

static void write_raw(struct gb_json *j, const struct call *call)
{
    static const char *const names[] = {"stdout_base64", "stderr_base64"};
    for (int i = 0; call->request.raw && i < 2; i++)
        gb_json_base64(j, names[i], call->run.raw[i].data, call->run.raw[i].len);
}

static void write_answer(struct gb_json *j, const struct call *call)
{
    AUTO_FREE char *text =
            call->answer ? json_dumps(call->answer, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))
                         : NULL;
    if (text)
        gb_json_raw(j, "result", text, strlen(text));
    else if (call->answer)
        j->out->failed = true;
}

static void more(struct gb_json *j, void *context)
{
    const struct call *call = context;
    gb_json_text(j, "tool", call->tool->name);
    write_answer(j, call);
    write_raw(j, call);
    write_screen(j, call);
    gb_json_int(j, "redactions", (int64_t)call->redactions);
    gb_denials_to_json(j, "denials", call->denials, call->denial_count);
    if (call->approval)
        approval_to_json(j, "approval", call->approval);
    gb_json_text(j, "policy", call->policy->gb->sha256);
}

/* The seeds' cut: 5 000 characters, then a line that says so. It comes after sanitising, never before. */
static void cut(struct gb_buf *text)
{
    size_t at = 0;
    for (unsigned chars = 0; at < text->len && chars < SEEDS_CHARS; chars++) {
        const size_t n = gb_text_utf8_len(text->data + at, text->len - at);
        at += n ? n : 1;
    }
    const bool lost = at < text->len || gb_buf_truncated(text);
    if (!lost)
        return;
    text->len = at;
    text->max = at + sizeof(SEEDS_CUT);
    gb_buf_puts(text, SEEDS_CUT);
    text->seen = text->len + 1; /* still cut off */
}

/* Whoever knows only the seeds' four fields is told in `error` why the program has no more to say. */
static void explain_kill(struct call *call)
{
    static const struct {
        const char *reason, *text;
    } rows[] = {{"timeout", "Execution timed out"},
                {"memory", "Execution exceeded its memory limit"},
                {"cpu", "Execution exceeded its cpu time limit"},
                {"cancelled", "Execution was cancelled"}};
    struct gb_buf *err = &call->result.err;
    for (size_t i = 0; call->result.kill_reason && i < ARRAY_LEN(rows); i++)
        if (!strcmp(rows[i].reason, call->result.kill_reason)) {
            const bool was_cut = gb_buf_truncated(err);
            err->max = err->len + 64;
            err->seen = err->len;
            if (err->len && err->data[err->len - 1] != '\n')
                gb_buf_puts(err, "\n");
            gb_buf_puts(err, rows[i].text);
            err->seen += was_cut;
        }
}

/* The seeds' words for code and commands, and the like for the rest; for whoever does not know `denials`. */
static void explain_denial(struct call *call)
{
    struct gb_buf *where = call->seeds ? &call->result.out : &call->result.err;
    const struct gb_denial *d = &call->denials[0];
    const char *what = call->tool->kind == GB_TOOL_COMMAND ? "Command"
                       : d->code == GB_DENIAL_SCREENED     ? "Code"
                                                           : "Call";
    where->len = 0;
    where->seen = 0;
    where->max = sizeof(d->reason) + 32;
    if (call->result.status == GB_STATUS_PENDING)
        gb_buf_printf(where, "Approval needed: %s", d->reason);
    else
        gb_buf_printf(where, "%s blocked: %s", what, d->reason);
}

void result_text(struct call *call, struct gb_buf *out)
{
    const struct gb_result_form form = {.id = call->id,
                                        .out_key = call->seeds ? "output" : "stdout",
                                        .err_key = call->seeds ? "error" : "stderr",
                                        .contents = true,
                                        .enforced = call->enforced ? call->enforced : "null",
                                        .more = more,
                                        .context = call};
    if (call->denial_count)
        explain_denial(call);
    if (call->seeds) {
        cut(&call->result.out);
        cut(&call->result.err);
        explain_kill(call);
    }
    gb_result_to_json(&call->result, &form, out);
}
