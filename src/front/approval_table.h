/* The approvals of the front, as approval.c keeps them and approval_pages.c shows them. */
#pragma once

#include "front/approval.h"

#define APPROVAL_REASON 256 /* of whoever decides, with its NUL */

enum approval_state {
    APPROVAL_NEW, /* not recorded yet, so nobody is asked */
    APPROVAL_ASKED,
    APPROVAL_APPROVED,
    APPROVAL_DENIED,
    APPROVAL_EXPIRED,
    APPROVAL_WITHDRAWN,
    APPROVAL_USED,
    APPROVAL_STATES
};
extern const char *const approval_states[APPROVAL_STATES]; /* as replies say it */

struct approval {
    struct front *front;
    struct approval *next, *prev; /* newest first */
    char id[GB_ID_CHARS + 1];
    char call_id[GB_ID_CHARS + 1]; /* of the call that asked */
    char principal[64], tool[GB_TOOL_NAME], sha256[65];
    char definition[65]; /* of the tool, as it was when a person was asked: gb_policy_definition */
    char *shown; /* what a person sees of the request: JSON in ASCII; NULL when it does not matter any more */
    size_t shown_bytes;
    int64_t asked_wall_us, expires_wall_us; /* for people */
    int64_t expires_us, wait_until_us;      /* for us; the latter 0: its call does not wait */
    enum approval_state state;
    enum approval_state going; /* the state whose record is on its way; NEW: none is */
    char decided_by[64], reason[APPROVAL_REASON];
    bool keeps;        /* it stays when its call goes: it was asked for to be used later */
    struct call *call; /* that asked and is not over, or is about to use it */
    struct audit_wait wait;
    struct gb_timer timer;
};

struct approvals {
    struct approval *first;
    size_t count;
    size_t bytes; /* of what is shown */
};

/* NULL: there is none of this id. */
struct approval *approval_find(struct front *f, const char *id);
bool approval_is_open(const struct approval *a); /* somebody may still decide on it, or use it */
/* A new one for this call, with what a person will see of it; NULL after a denial. */
struct approval *approval_make(struct call *call);
/* What it shows does not matter any more; nor does any of it. */
void approval_drop_shown(struct approval *a);
void approval_forget(struct approval *a);

#define APPROVAL_DENY(call, code, hint, ...)                                                                 \
    gb_denial_add((call)->denials, &(call)->denial_count, (code), (hint), __VA_ARGS__)

/* Records the decision of a person; approval_answer tells whoever waits for it. */
void approval_settle(struct approval *a, bool approve, const char *by, const char *reason);
/* approval_pages.c: the record is written, or (err) is not. */
void approval_answer(struct approval *a, const struct gb_err *err);
