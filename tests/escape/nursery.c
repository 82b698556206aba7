/* nursery PATH: starts the zygote that GLOVEBOX_TEST_PATH says, and lends it to every `glovebox run` that
 * comes with GLOVEBOX_TEST_ZYGOTE=PATH (src/backend/rehearsal.h). So a test has boxes of one zygote that live
 * at the same time, each with a supervisor of its own, as the keepers of a launcher are.
 *
 * Prints the zygote's pid when it can be asked. Ends when its input ends, and the zygote with it. */
#include "backend/rehearsal.h"
#include "base/auto.h"
#include "sandbox/channel.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void lend(int listener, const struct gb_zygote *zygote)
{
    AUTO_FD caller = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (caller >= 0)
        (void)gb_channel_send(caller, zygote, sizeof(*zygote), &zygote->socket, 1);
}

int main(int argc, char **argv)
{
    struct gb_zygote zygote = {.socket = -1, .pidfd = -1};
    struct gb_err err = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc != 2 || !gb_rehearsal_wanted())
        return 2;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
    AUTO_FD listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
        listen(listener, 64)) {
        perror(argv[1]);
        return 1;
    }
    if (gb_rehearsal_zygote(NULL, &zygote, &err)) {
        fprintf(stderr, "nursery: %s\n", err.text);
        return 1;
    }
    printf("%d\n", zygote.pid);
    fflush(stdout);
    for (;;) {
        struct pollfd p[] = {{listener, POLLIN, 0}, {0, POLLIN, 0}};
        if (poll(p, ARRAY_LEN(p), -1) < 0)
            continue;
        if (p[1].revents)
            return 0;
        if (p[0].revents)
            lend(listener, &zygote);
    }
}
