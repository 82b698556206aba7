/* nursery PATH: starts the zygote that GLOVEBOX_TEST_PATH says, and lends it to every `glovebox run` that
 * comes with GLOVEBOX_TEST_ZYGOTE=PATH (src/backend/rehearsal.h), with the uid and the cradle of one that has
 * ended well. So a test has boxes of one zygote that live at the same time, each with a supervisor of its
 * own, or one after the other in the same cradle, as those of the keepers of a launcher.
 *
 * Prints the zygote's pid when it can be asked. Ends when its input ends, and the zygote with it. */
#include "backend/rehearsal.h"
#include "base/auto.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOANS 64

static struct {
    int caller; /* who has it, over a socket that ends with them; -1: nobody */
    bool any;   /* there is one */
    struct gb_loan loan;
} loans[LOANS];

/* One that somebody has given back, or else a place for another; -1: there is none. */
static int find(void)
{
    int place = -1;
    for (int i = 0; i < LOANS; i++)
        if (loans[i].caller < 0 && (place < 0 || loans[i].any))
            place = i;
    return place;
}

static void lend(int listener, const struct gb_zygote *zygote)
{
    AUTO_FD caller = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    const int i = find();
    if (caller < 0 || i < 0)
        return;
    struct gb_loan loan = loans[i].loan;
    if (!loans[i].any)
        loan.lease_fd = loan.cradle_fd = -1;
    loan.zygote = *zygote;
    (void)gb_rehearsal_send(caller, &loan);
    gb_auto_close(&loan.lease_fd);
    gb_auto_close(&loan.cradle_fd);
    loans[i].any = false;
    loans[i].caller = TAKE_FD(caller);
}

/* Given back, or lost with whoever had it. */
static void take_back(unsigned i)
{
    loans[i].any = !gb_rehearsal_receive(loans[i].caller, &loans[i].loan);
    gb_close(&loans[i].caller);
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
    for (size_t i = 0; i < LOANS; i++)
        loans[i].caller = -1;
    for (;;) {
        struct pollfd p[LOANS + 2] = {[LOANS] = {listener, POLLIN, 0}, {0, POLLIN, 0}};
        for (size_t i = 0; i < LOANS; i++)
            p[i] = (struct pollfd){loans[i].caller, POLLIN, 0};
        if (poll(p, ARRAY_LEN(p), -1) < 0)
            continue;
        if (p[LOANS + 1].revents)
            return 0;
        for (unsigned i = 0; i < LOANS; i++)
            if (p[i].revents)
                take_back(i);
        if (p[LOANS].revents)
            lend(listener, &zygote);
    }
}
