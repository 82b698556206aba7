/* Approvals over HTTP: what waits for a decision, and the decision. Whoever may decide sees all; others see
 * their own. */
#include "front/approval_table.h"

#include "base/auto.h"
#include "base/text.h"
#include "front/reply.h"

#include <stdio.h>
#include <string.h>

#define PAGE_BYTES ((size_t)8 << 20)
#define LIST_CHARS 200 /* of a request in a list; GET of the id has all of it */

/* Without keys there is one principal, and nobody else who could agree. */
static bool is_approver(const struct conn *c)
{
    return !c->policy->config->key_count || gb_policy_principal(c->policy->gb, c->x->principal)->approver;
}

static bool may_see(const struct conn *c, const struct approval *a)
{
    return a->state != APPROVAL_NEW && (is_approver(c) || !strcmp(a->principal, c->x->principal));
}

void approval_to_json(struct gb_json *j, const char *key, const struct approval *a)
{
    char expires[GB_TIME_BYTES];
    gb_text_time(a->expires_wall_us, expires, sizeof(expires));
    gb_json_open(j, key, '{');
    gb_json_text(j, "id", a->id);
    gb_json_text(j, "tool", a->tool);
    gb_json_text(j, "state", approval_states[a->state]);
    gb_json_text(j, "expires", expires);
    gb_json_close(j, '}');
}

static void write_one(struct gb_json *j, const struct approval *a, bool whole)
{
    char asked[GB_TIME_BYTES], expires[GB_TIME_BYTES];
    const char *shown = a->shown ? a->shown : "";
    gb_text_time(a->asked_wall_us, asked, sizeof(asked));
    gb_text_time(a->expires_wall_us, expires, sizeof(expires));
    gb_json_open(j, NULL, '{');
    gb_json_text(j, "id", a->id);
    gb_json_text(j, "state", approval_states[a->state]);
    gb_json_text(j, "principal", a->principal);
    gb_json_text(j, "tool", a->tool);
    gb_json_text(j, "execution", a->call_id);
    gb_json_text(j, "arguments_sha256", a->sha256);
    gb_json_text(j, "asked", asked);
    gb_json_text(j, "expires", expires);
    if (!whole)
        gb_json_bytes(j, "summary", shown, strnlen(shown, LIST_CHARS));
    else if (a->shown)
        gb_json_raw(j, "request", a->shown, a->shown_bytes);
    else
        gb_json_null(j, "request");
    (*a->decided_by ? gb_json_text(j, "decided_by", a->decided_by) : gb_json_null(j, "decided_by"));
    gb_json_text(j, "reason", a->reason);
    gb_json_close(j, '}');
}

static void reply_one(struct conn *c, const struct approval *a)
{
    AUTO_BUF text = {.max = PAGE_BYTES};
    struct gb_json j = {.out = &text, .first = true};
    write_one(&j, a, true);
    gb_buf_puts(&text, "\n");
    reply_json(c, 200, &text);
}

static bool takes_no_query(struct conn *c)
{
    struct gb_err err;
    if (!c->x->http.query.len)
        return true;
    gb_err_set(&err, GB_ERR_USAGE, 0, "this path takes no query");
    reply_problem(c, 0, &err, "");
    return false;
}

void approval_list(struct conn *c)
{
    AUTO_BUF text = {.max = PAGE_BYTES};
    struct gb_json j = {.out = &text, .first = true};
    if (!takes_no_query(c))
        return;
    gb_json_open(&j, NULL, '{');
    gb_json_bool(&j, "may_decide", is_approver(c));
    gb_json_open(&j, "approvals", '[');
    for (const struct approval *a = c->front->approvals ? c->front->approvals->first : NULL; a; a = a->next)
        if (approval_is_open(a) && may_see(c, a))
            write_one(&j, a, false);
    gb_json_close(&j, ']');
    gb_json_close(&j, '}');
    gb_buf_puts(&text, "\n");
    reply_json(c, 200, &text);
}

/* The approval that the path names, or NULL after a reply. */
static struct approval *named(struct conn *c)
{
    char id[GB_ID_CHARS + 1];
    struct gb_err err;
    snprintf(id, sizeof(id), "%.*s", (int)c->x->param.len, c->x->param.data);
    struct approval *a = c->x->param.len == GB_ID_CHARS ? approval_find(c->front, id) : NULL;
    if (a && may_see(c, a))
        return a;
    gb_err_set(&err, GB_ERR_NOT_FOUND, 0, "there is no approval with this id");
    reply_problem(c, 0, &err, "");
    return NULL;
}

void approval_show(struct conn *c)
{
    const struct approval *a = takes_no_query(c) ? named(c) : NULL;
    if (a)
        reply_one(c, a);
}

/* --- the decision --- */

struct decision {
    bool approve;
    char reason[APPROVAL_REASON];
};

/* One line that means to a reader what it says. */
static int read_reason(const json_t *value, char ret[APPROVAL_REASON], struct gb_err *err)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != json_string_length(value) || strlen(text) >= APPROVAL_REASON)
        return gb_err_set(err, GB_ERR_USAGE, 0, "reason: must be a string of at most %d bytes",
                          APPROVAL_REASON - 1);
    snprintf(ret, APPROVAL_REASON, "%s", text);
    gb_text_defuse(ret);
    return strcmp(ret, text) != 0
                   ? gb_err_set(err, GB_ERR_USAGE, 0, "reason: must be one line, without control characters")
                   : 0;
}

static int read_decision(const struct conn *c, struct decision *ret, struct gb_err *err)
{
    AUTO_JSON body = NULL;
    const char *name;
    json_t *value;
    int r = gb_json_read(c->x->body.data ? c->x->body.data : "", c->x->body.len, &body, err);
    if (r)
        return r;
    const char *word = json_string_value(json_object_get(body, "decision"));
    if (!json_is_object(body))
        return gb_err_set(err, GB_ERR_USAGE, 0, "the body must be a JSON object");
    json_object_foreach(body, name, value)
        if (strcmp(name, "decision") != 0 && strcmp(name, "reason") != 0)
            return gb_err_set(err, GB_ERR_USAGE, 0,
                              "%.64s: is not a field of a decision; there are: decision, reason", name);
    if (!word || (strcmp(word, "approve") != 0 && strcmp(word, "deny") != 0))
        return gb_err_set(err, GB_ERR_USAGE, 0, "decision: must be \"approve\" or \"deny\"");
    ret->approve = !strcmp(word, "approve");
    value = json_object_get(body, "reason");
    return value ? read_reason(value, ret->reason, err) : 0;
}

static int may_decide(const struct conn *c, const struct approval *a, struct gb_err *err)
{
    if (!is_approver(c))
        return gb_err_set(err, GB_ERR_FORBIDDEN, 0, "%s may not decide: its principal is no approver",
                          c->x->principal);
    if (c->policy->config->key_count && !strcmp(a->principal, c->x->principal))
        return gb_err_set(err, GB_ERR_FORBIDDEN, 0, "nobody decides on calls of their own");
    if (a->state != APPROVAL_ASKED)
        return gb_err_set(err, GB_ERR_CONFLICT, 0, "approval %s is %s; it cannot be decided any more", a->id,
                          approval_states[a->state]);
    if (a->going != APPROVAL_NEW)
        return gb_err_set(err, GB_ERR_CONFLICT, 0, "approval %s is being decided, or has just ended", a->id);
    if (!a->keeps && !(a->call && a->call->state == CALL_APPROVAL))
        return gb_err_set(err, GB_ERR_CONFLICT, 0, "approval %s has nobody who waits for it any more", a->id);
    return 0;
}

void approval_decide(struct conn *c)
{
    struct decision decision = {0};
    struct gb_err err = {0};
    struct approval *a = takes_no_query(c) ? named(c) : NULL;
    if (!a)
        return;
    int r = may_decide(c, a, &err);
    if (!r)
        r = read_decision(c, &decision, &err);
    if (r) {
        reply_problem(c, 0, &err, "");
        return;
    }
    c->deciding = a; /* approval_answer comes when it is recorded */
    approval_settle(a, decision.approve, c->x->principal, decision.reason);
}

void approval_answer(struct approval *a, const struct gb_err *err)
{
    struct conn *c = a->front->conns;
    while (c && c->deciding != a)
        c = c->next;
    if (!c)
        return; /* left meanwhile; the decision stands */
    c->deciding = NULL;
    if (err)
        reply_later(c, err, 1);
    else
        reply_one(c, a);
    conn_advance(c);
}
