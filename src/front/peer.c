#include "front/peer.h"

#include "base/diag.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(six);
}

int64_t peer_uid(const struct conn *c)
{
    if (c->listener->is_unix) {
        struct ucred cred;
        socklen_t len = sizeof(cred);
        return getsockopt(c->source.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ? -1 : (int64_t)cred.uid;
    }
    struct sockaddr_storage theirs = {0}, ours = {0};
    socklen_t their_len = sizeof(theirs), our_len = sizeof(ours);
    if (getpeername(c->source.fd, (struct sockaddr *)&theirs, &their_len) ||
        getsockname(c->source.fd, (struct sockaddr *)&ours, &our_len) || !is_loopback(&theirs) ||
        !is_loopback(&ours))
        return -1;
    uid_t uid;
    int r = gb_diag_owner(c->front->diag_fd, (struct sockaddr *)&theirs, (struct sockaddr *)&ours, &uid);
    return r ? -1 : (int64_t)uid;
}
