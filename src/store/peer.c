#include "store/peer.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#define FIND_MOST 1000
#define FIND_STEP 64 /* rows between two looks at the others */

bool gb_peer_is_busy(const struct gb_peer *peer)
{
    return peer->ack_count || peer->finding;
}

/* 0 or -EAGAIN. A peer that cannot hear is told nothing more. */
static int send_to(struct gb_peer *p, enum gb_msg_kind kind, uint64_t tag, const void *body, const void *tail,
                   size_t tail_bytes)
{
    int r = p->deaf ? 0 : gb_msg_send(p->source.fd, kind, tag, body, tail, tail_bytes, NULL, 0);
    if (r && r != -EAGAIN)
        p->deaf = true;
    return r == -EAGAIN ? r : 0;
}

static int send_acks(struct gb_peer *p)
{
    for (; p->ack_at < p->ack_count; p->ack_at++) {
        const bool failed = p->ack_err.code != GB_ERR_NONE;
        if (p->acks[p->ack_at].quiet && !failed)
            continue;
        struct gb_msg_ack ack = {.seq = failed ? 0 : p->acks[p->ack_at].seq, .err = p->ack_err};
        if (p->acks[p->ack_at].refused)
            gb_err_set(&ack.err, GB_ERR_AUDIT, 0, "the intent of this call could not be stored");
        if (send_to(p, GB_MSG_ACK, p->acks[p->ack_at].tag, &ack, NULL, 0))
            return -EAGAIN;
    }
    p->ack_count = p->ack_at = 0;
    return 0;
}

static int send_row(void *context, const struct gb_audit_record *r)
{
    struct gb_peer *p = context;
    struct gb_msg_row row = {.seq = r->seq, .time_us = r->time_us, .kind = r->kind};
    snprintf(row.id, sizeof(row.id), "%s", r->id);
    snprintf(row.principal, sizeof(row.principal), "%s", r->principal);
    if (send_to(p, GB_MSG_ROW, p->find_tag, &row, r->body, r->body_bytes))
        return -EAGAIN;
    p->found++;
    p->at = r->seq;
    return 0;
}

/* The next rows of a question, or its end. Where it stopped is a sequence number, so that no statement stays
 * open while somebody else appends. */
static int send_rows(struct gb_peer *p, struct gb_ledger *ledger)
{
    const bool one = p->find.id[0];
    const int64_t most = p->find.most < FIND_MOST ? p->find.most : FIND_MOST, left = most - p->found;
    const int64_t step = left < FIND_STEP ? left : FIND_STEP, before = p->found;
    const struct gb_audit_filter filter = {
            .id = one ? p->find.id : NULL,
            .principal = p->find.principal[0] ? p->find.principal : NULL,
            .ends = !one,
            .newest = !one,
            .after = one ? p->at : 0,
            .before = !one && p->at ? p->at : p->find.before,
            .most = step,
    };
    struct gb_msg_ack end = {0};
    int r = step > 0 && !p->deaf ? gb_ledger_each(ledger, &filter, send_row, p, &end.err) : 0;
    if (r == -EAGAIN || (!r && step > 0 && p->found - before == step && p->found < most))
        return -EAGAIN;
    end.seq = p->found;
    if (send_to(p, GB_MSG_END, p->find_tag, &end, NULL, 0))
        return -EAGAIN;
    p->finding = false;
    return 0;
}

static int send_usage_row(void *context, const struct gb_audit_usage *u)
{
    struct gb_peer *p = context;
    struct gb_msg_usage row = {.day = u->day, .calls = u->calls, .cpu_us = u->cpu_us};
    snprintf(row.principal, sizeof(row.principal), "%s", u->principal);
    snprintf(row.tool, sizeof(row.tool), "%s", u->tool);
    if (send_to(p, GB_MSG_USAGE, p->find_tag, &row, NULL, 0))
        return -EAGAIN;
    p->found++;
    p->last_usage = row;
    return 0;
}

static int send_usage(struct gb_peer *p, struct gb_ledger *ledger)
{
    const struct gb_audit_usage behind = {
            .day = p->last_usage.day, .principal = p->last_usage.principal, .tool = p->last_usage.tool};
    struct gb_msg_ack end = {0};
    const int64_t before = p->found;
    int r = p->deaf ? 0 : gb_ledger_each_usage(ledger, &behind, FIND_STEP, send_usage_row, p, &end.err);
    if (r == -EAGAIN || (!r && p->found - before == FIND_STEP))
        return -EAGAIN;
    end.seq = p->found;
    if (send_to(p, GB_MSG_END, p->find_tag, &end, NULL, 0))
        return -EAGAIN;
    p->finding = false;
    return 0;
}

void gb_peer_flush(struct gb_peer *peer, struct gb_ledger *ledger)
{
    peer->deaf |= peer->source.fd < 0;
    if (!send_acks(peer) && peer->finding)
        (void)(peer->find_usage ? send_usage : send_rows)(peer, ledger);
}

int gb_peer_watch(struct gb_peer *peer, bool held, struct gb_loop *loop)
{
    const uint32_t events = gb_peer_is_busy(peer) ? EPOLLOUT : held ? 0 : EPOLLIN;
    return peer->source.fd < 0 ? 0 : gb_loop_watch(loop, &peer->source, events);
}
