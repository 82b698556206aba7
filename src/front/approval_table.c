#include "front/approval_table.h"

#include "base/auto.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MOST ((size_t)64 << 10) /* nobody reads more, and what was not read was not agreed to */
#define HELD_MOST  ((size_t)32 << 20) /* of all that wait */

const char *const approval_states[APPROVAL_STATES] = {
        [APPROVAL_NEW] = "new",       [APPROVAL_ASKED] = "pending",   [APPROVAL_APPROVED] = "approved",
        [APPROVAL_DENIED] = "denied", [APPROVAL_EXPIRED] = "expired", [APPROVAL_WITHDRAWN] = "withdrawn",
        [APPROVAL_USED] = "used",
};

const char *approval_id(const struct approval *a)
{
    return a->id;
}

/* --- the table --- */

struct approval *approval_find(struct front *f, const char *id)
{
    struct approval *a = f->approvals ? f->approvals->first : NULL;
    while (a && strcmp(a->id, id) != 0)
        a = a->next;
    return a;
}

bool approval_is_open(const struct approval *a)
{
    return a->state <= APPROVAL_APPROVED;
}

void approval_drop_shown(struct approval *a)
{
    a->front->approvals->bytes -= a->shown_bytes;
    a->shown_bytes = 0;
    free(TAKE_PTR(a->shown));
}

void approval_forget(struct approval *a)
{
    struct approvals *all = a->front->approvals;
    gb_loop_at(a->front->loop, &a->timer, 0);
    approval_drop_shown(a);
    *(a->prev ? &a->prev->next : &all->first) = a->next;
    if (a->next)
        a->next->prev = a->prev;
    all->count--;
    free(a);
}

/* What is over is kept, to tell whoever comes with its id, as long as nobody needs the place. */
static bool make_room(struct front *f, int64_t most)
{
    while ((int64_t)f->approvals->count >= most) {
        struct approval *oldest = NULL;
        for (struct approval *a = f->approvals->first; a; a = a->next)
            if (!approval_is_open(a) && a->going == APPROVAL_NEW && !a->call)
                oldest = a;
        if (!oldest)
            return false;
        approval_forget(oldest);
    }
    return true;
}

/* With keys there are tenants: none of them can take all places, and keep the others from being heard. */
static bool has_share(const struct call *call, int64_t most)
{
    int64_t own = 0;
    for (const struct approval *a = call->front->approvals->first; a; a = a->next)
        own += approval_is_open(a) && !strcmp(a->principal, call->principal);
    return !call->policy->config->key_count || own < (most + 1) / 2;
}

/* --- what a person is shown --- */

/* Everything that the hash is over: the arguments, and what else comes with the request. In ASCII, so that no
 * character steers a terminal or turns the direction of writing. */
static char *show_request(const struct call *call)
{
    static const char *const others[] = {"stdin",           "args",   "env", "files", "outputs", "language",
                                         "allowed_modules", "limits", "raw"};
    AUTO_JSON shown = json_object();
    bool good = shown && !json_object_set(shown, "arguments", call->request.arguments);
    AUTO_JSON with = json_object();
    for (size_t i = 0; good && i < ARRAY_LEN(others); i++) {
        json_t *value = json_object_get(call->request.json, others[i]);
        good = !value || !json_object_set(with, others[i], value);
    }
    good = good && (!json_object_size(with) || !json_object_set(shown, "with", with));
    return good ? json_dumps(shown, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17)) : NULL;
}

struct approval *approval_make(struct call *call)
{
    struct front *f = call->front;
    const int64_t most = call->policy->config->approvals.most;
    static const char later[] = "try again later, when some of them are decided";
    if (!f->approvals)
        f->approvals = calloc(1, sizeof(*f->approvals));
    AUTO_FREE char *shown = show_request(call);
    struct approval *a = f->approvals && shown ? calloc(1, sizeof(*a)) : NULL;
    const size_t bytes = shown ? strlen(shown) : 0;
    const char *why = !a                       ? "there is no memory to ask for an approval"
                      : !has_share(call, most) ? "half of all approvals that may wait are yours"
                      : f->approvals->bytes + bytes > HELD_MOST ? "too much waits for approval already"
                      : !make_room(f, most)                     ? "as many calls wait for approval as may"
                                                                : NULL;
    if (bytes > SHOWN_MOST) {
        APPROVAL_DENY(call, GB_DENIAL_APPROVAL, "make it shorter, or leave out files",
                      "the call needs an approval, and is too long to be read: %zu bytes, at most %zu", bytes,
                      SHOWN_MOST);
        why = "";
    } else if (why)
        APPROVAL_DENY(call, GB_DENIAL_APPROVAL, later, "the call needs an approval, but %s", why);
    if (why || !a) {
        free(a);
        return NULL;
    }
    a->front = f;
    a->shown = TAKE_PTR(shown);
    a->shown_bytes = bytes;
    f->approvals->bytes += bytes;
    f->approvals->count++;
    gb_id_new(a->id);
    snprintf(a->call_id, sizeof(a->call_id), "%s", call->id);
    snprintf(a->principal, sizeof(a->principal), "%s", call->principal);
    snprintf(a->tool, sizeof(a->tool), "%s", call->tool->name);
    snprintf(a->sha256, sizeof(a->sha256), "%s", call->arguments_sha256);
    snprintf(a->definition, sizeof(a->definition), "%s", call->definition);
    a->next = f->approvals->first;
    if (a->next)
        a->next->prev = a;
    f->approvals->first = a;
    return a;
}
