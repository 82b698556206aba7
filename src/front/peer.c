#include "front/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(six);
}

static void put_address(const struct sockaddr_storage *a, __be32 address[4], __be16 *port)
{
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)a;
        address[0] = four->sin_addr.s_addr;
        *port = four->sin_port;
    } else {
        const struct sockaddr_in6 *six = (const void *)a;
        memcpy(address, &six->sin6_addr, sizeof(six->sin6_addr));
        *port = six->sin6_port;
    }
}

/* Asks the kernel about the client's socket: the one whose own address is our peer's. */
static int64_t ask(int fd, const struct sockaddr_storage *theirs, const struct sockaddr_storage *ours)
{
    static uint32_t seq;
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 req;
    } question = {
            .head = {.nlmsg_len = sizeof(question),
                     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                     .nlmsg_flags = NLM_F_REQUEST,
                     .nlmsg_seq = ++seq},
            .req = {.sdiag_family = (uint8_t)theirs->ss_family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_states = UINT32_MAX,
                    .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}},
    };
    put_address(theirs, question.req.id.idiag_src, &question.req.id.idiag_sport);
    put_address(ours, question.req.id.idiag_dst, &question.req.id.idiag_dport);
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (sendto(fd, &question, sizeof(question), 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
        return -1;
    for (int i = 0; i < 8; i++) { /* an answer to an earlier question may still be there */
        union {
            struct nlmsghdr head;
            char bytes[4096];
        } answer;
        ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
        if (n < (ssize_t)sizeof(answer.head))
            return -1;
        if (answer.head.nlmsg_seq != seq)
            continue;
        const struct inet_diag_msg *m = NLMSG_DATA(&answer.head);
        if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)NLMSG_LENGTH(sizeof(*m)))
            return -1;
        /* A socket that its process has closed belongs to nobody, and the kernel calls nobody root. */
        return m->idiag_inode ? (int64_t)m->idiag_uid : -1;
    }
    return -1;
}

int64_t peer_uid(const struct conn *c)
{
    if (c->listener->is_unix) {
        struct ucred cred;
        socklen_t len = sizeof(cred);
        return getsockopt(c->source.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ? -1 : (int64_t)cred.uid;
    }
    struct sockaddr_storage theirs, ours;
    socklen_t their_len = sizeof(theirs), our_len = sizeof(ours);
    if (c->front->diag_fd < 0 || getpeername(c->source.fd, (struct sockaddr *)&theirs, &their_len) ||
        getsockname(c->source.fd, (struct sockaddr *)&ours, &our_len) || !is_loopback(&theirs) ||
        !is_loopback(&ours))
        return -1;
    return ask(c->front->diag_fd, &theirs, &ours);
}
