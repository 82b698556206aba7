#include "front/audit.h"

#include "front/call.h"

#include <errno.h>
#include <stdio.h>

static void expect(struct front *f, struct audit_wait *wait)
{
    wait->next = NULL;
    wait->tag = f->next_tag++;
    *f->waits_end = wait;
    f->waits_end = &wait->next;
}

/* The newest wait was not sent after all. */
static void unexpect(struct front *f, const struct audit_wait *wait)
{
    struct audit_wait **p = &f->waits;
    while (*p != wait)
        p = &(*p)->next;
    *p = NULL;
    f->waits_end = p;
}

int audit_append_use(struct front *f, struct audit_wait *wait, const struct gb_msg_append *what,
                     const struct gb_buf *body)
{
    if (body->failed || gb_buf_truncated(body))
        return -ENOMEM;
    expect(f, wait);
    int r = channel_send(&f->store, GB_MSG_APPEND, wait->tag, what, body->data, body->len, NULL, 0);
    if (r)
        unexpect(f, wait);
    return r;
}

int audit_append_quiet(struct front *f, struct gb_msg_append *what, const struct gb_buf *body,
                       uint64_t *ret_tag)
{
    if (body->failed || gb_buf_truncated(body))
        return -ENOMEM;
    what->quiet = 1;
    *ret_tag = f->next_tag++;
    int r = channel_try(&f->store, GB_MSG_APPEND, *ret_tag, what, body->data, body->len);
    what->quiet = r == 0;
    return r;
}

int audit_append(struct front *f, struct audit_wait *wait, enum gb_record_kind kind, const char *id,
                 const char *principal, const struct gb_buf *body)
{
    struct gb_msg_append m = {.kind = kind};
    snprintf(m.id, sizeof(m.id), "%s", id);
    snprintf(m.principal, sizeof(m.principal), "%s", principal);
    return audit_append_use(f, wait, &m, body);
}

int audit_find(struct front *f, struct audit_wait *wait, const char *id, const char *principal,
               int64_t before, unsigned most)
{
    struct gb_msg_find m = {.before = before, .most = most};
    snprintf(m.id, sizeof(m.id), "%s", id);
    snprintf(m.principal, sizeof(m.principal), "%s", principal);
    expect(f, wait);
    int r = channel_send(&f->store, GB_MSG_FIND, wait->tag, &m, NULL, 0, NULL, 0);
    if (r)
        unexpect(f, wait);
    return r;
}

int audit_find_usage(struct front *f, struct audit_wait *wait, int64_t day)
{
    const struct gb_msg_find_usage m = {.day = day};
    expect(f, wait);
    int r = channel_send(&f->store, GB_MSG_FIND_USAGE, wait->tag, &m, NULL, 0, NULL, 0);
    if (r)
        unexpect(f, wait);
    return r;
}

void audit_received(struct channel *ch, struct gb_msg *msg)
{
    struct front *f = GB_OWNER(ch, struct front, store);
    struct audit_wait **p = &f->waits; /* answers come in the order of questions, or nearly */
    while (*p && (*p)->tag != msg->tag)
        p = &(*p)->next;
    struct audit_wait *wait = *p;
    const struct gb_msg_ack *ack = msg->body;
    if (!wait && msg->kind == GB_MSG_ACK && ack->err.code != GB_ERR_NONE) {
        call_unrecorded(f, msg->tag, &ack->err);
        return;
    }
    if (!wait || (msg->kind == GB_MSG_ROW && !wait->row) || (msg->kind == GB_MSG_USAGE && !wait->usage))
        front_fail("the store answered a question that nobody asked");
    if (msg->kind == GB_MSG_ROW) {
        wait->row(wait, msg->body, msg->tail, msg->tail_bytes);
        return;
    }
    if (msg->kind == GB_MSG_USAGE) {
        wait->usage(wait, msg->body);
        return;
    }
    *p = wait->next;
    if (!*p)
        f->waits_end = p;
    wait->done(wait, msg->body);
}

bool audit_expects(const struct channel *ch)
{
    return GB_OWNER(ch, struct front, store)->waits != NULL;
}
