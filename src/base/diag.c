#include "base/diag.h"

#include "base/auto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

static void put_address(const struct sockaddr *from, __be16 *ret_port, __be32 ret_address[4])
{
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)from;
        *ret_port = in6->sin6_port;
        memcpy(ret_address, &in6->sin6_addr, sizeof(in6->sin6_addr));
    } else {
        const struct sockaddr_in *in = (const void *)from;
        *ret_port = in->sin_port;
        memcpy(ret_address, &in->sin_addr, sizeof(in->sin_addr));
    }
}

/* One answer. -EAGAIN: it is the answer to an earlier question, whose asker did not wait for it. */
static int take_answer(int fd, uint32_t seq, uid_t *ret_uid)
{
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    /* The kernel has answered before send() returned: there is nothing to wait for. */
    ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (n < (ssize_t)sizeof(answer.head))
        return n < 0 && errno != EAGAIN ? -errno : -ENOENT;
    if (answer.head.nlmsg_seq != seq)
        return -EAGAIN;
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
    if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || (size_t)n < NLMSG_LENGTH(sizeof(*found)))
        return -ENOENT;
    /* A listening socket is found when there is no such connection: somebody else's. A socket without an
     * inode was closed by its process and belongs to nobody, whom the kernel calls uid 0. */
    if (found->idiag_state == TCP_LISTEN || !found->idiag_inode)
        return -ENOENT;
    *ret_uid = found->idiag_uid;
    return 0;
}

int gb_diag_owner(int fd, const struct sockaddr *local, const struct sockaddr *remote, uid_t *ret_uid)
{
    static uint32_t seq;
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } ask = {.head = {.nlmsg_len = sizeof(ask),
                      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                      .nlmsg_flags = NLM_F_REQUEST,
                      .nlmsg_seq = ++seq},
             .body = {.sdiag_family = (uint8_t)local->sa_family,
                      .sdiag_protocol = IPPROTO_TCP,
                      .idiag_states = UINT32_MAX,
                      .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
    put_address(local, &ask.body.id.idiag_sport, ask.body.id.idiag_src);
    put_address(remote, &ask.body.id.idiag_dport, ask.body.id.idiag_dst);
    if (send(fd, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
        return -errno;
    int r = -EAGAIN;
    for (int i = 0; i < 8 && r == -EAGAIN; i++)
        r = take_answer(fd, seq, ret_uid);
    return r;
}

/* A connection to ourselves over loopback, to ask about. */
static int try_it(int fd, struct gb_err *err)
{
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                       client = {.sin_family = AF_INET};
    socklen_t len = sizeof(server), client_len = sizeof(client);
    uid_t uid = (uid_t)-1;
    AUTO_FD door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO_FD caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (door < 0 || caller < 0 || bind(door, (struct sockaddr *)&server, len) || listen(door, 1) ||
        getsockname(door, (struct sockaddr *)&server, &len) ||
        connect(caller, (struct sockaddr *)&server, len) ||
        getsockname(caller, (struct sockaddr *)&client, &client_len))
        return gb_err_set(err, GB_ERR_LAYER, errno, "connect to ourselves over loopback");
    int r = gb_diag_owner(fd, (struct sockaddr *)&client, (struct sockaddr *)&server, &uid);
    if (r)
        return gb_err_set(err, GB_ERR_LAYER, -r,
                          "the kernel's socket diagnostics do not know our own connection");
    if (uid != geteuid())
        return gb_err_set(err, GB_ERR_LAYER, EPROTO,
                          "the kernel's socket diagnostics say that our own connection is that of uid %u",
                          uid);
    return 0;
}

int gb_diag_open(struct gb_err *err)
{
    AUTO_FD fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (fd < 0 || connect(fd, (struct sockaddr *)&kernel, sizeof(kernel)))
        return gb_err_set(err, GB_ERR_LAYER, errno, "open the kernel's socket diagnostics");
    int r = try_it(fd, err);
    return r ? r : TAKE_FD(fd);
}
