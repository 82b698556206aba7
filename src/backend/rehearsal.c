#include "backend/rehearsal.h"

#ifdef GB_TESTING

#include "backend/native.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/wall.h"
#include "init/report.h"
#include "sandbox/channel.h"
#include "sandbox/launch.h"
#include "sandbox/steps.h"
#include "sandbox/zygote.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

bool gb_rehearsal_wanted(void)
{
    const char *path = getenv("GLOVEBOX_TEST_PATH");
    return path && *path && strcmp(path, "cold");
}

static int add_file(struct gb_buf *b, const struct gb_file *f, struct gb_err *err)
{
    struct stat st;
    const enum gb_item_kind kind = f->mode & 0111 ? GB_ITEM_PROGRAM : GB_ITEM_DATA;
    gb_payload_add_text(b, GB_ITEM_NAME, f->name);
    if (f->data) {
        gb_payload_add(b, kind, f->data, f->len);
        return 0;
    }
    if (fstat(f->fd, &st))
        return gb_err_set(err, GB_ERR_INPUT, errno, "read '%.200s'", f->name);
    char *copy = malloc((size_t)st.st_size + 1);
    ssize_t n = copy ? pread(f->fd, copy, (size_t)st.st_size, 0) : -1;
    if (n >= 0)
        gb_payload_add(b, kind, copy, (size_t)n);
    free(copy);
    return n < 0 ? gb_err_set(err, GB_ERR_INPUT, errno, "read '%.200s'", f->name) : 0;
}

/* Bytes that were made to be wrong. */
static int load_payload(const char *path, struct gb_err *err)
{
    AUTO_FD in = open(path, O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("payload", MFD_CLOEXEC);
    if (in < 0 || fd < 0 || gb_fd_copy(fd, in) < 0)
        return gb_err_set(err, GB_ERR_INPUT, errno, "read '%s'", path);
    return fd;
}

static int make_payload(const struct gb_spec *spec, struct gb_err *err)
{
    AUTO_BUF b = {.max = SIZE_MAX / 2};
    if (getenv("GLOVEBOX_TEST_PAYLOAD"))
        return load_payload(getenv("GLOVEBOX_TEST_PAYLOAD"), err);
    for (size_t i = 0; spec->argv[i]; i++)
        gb_payload_add_text(&b, GB_ITEM_ARG, spec->argv[i]);
    for (size_t i = 0; spec->env && spec->env[i]; i++)
        gb_payload_add_text(&b, GB_ITEM_ENV, spec->env[i]);
    for (size_t i = 0; i < spec->file_count; i++) {
        int r = add_file(&b, &spec->files[i], err);
        if (r)
            return r;
    }
    int fd = gb_payload_seal(&b);
    return fd < 0 ? gb_err_set(err, GB_ERR_BUSY, -fd, "seal the payload") : fd;
}

/* The bootstrap and the extension lie in the directory that GLOVEBOX_TEST_WARM names. */
static int open_beside(const char *name)
{
    char path[PATH_MAX];
    const char *dir = getenv("GLOVEBOX_TEST_WARM");
    snprintf(path, sizeof(path), "%s/%s", dir ? dir : ".", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int gb_rehearsal_zygote(const char *degraded, struct gb_zygote *ret, struct gb_err *err)
{
    struct gb_zygote_spec spec = {.degraded = degraded};
    struct gb_file files[2] = {{.name = "main.py"}, {.name = "_glovebox.abi3.so"}};
    if (!strcmp(getenv("GLOVEBOX_TEST_PATH"), "python")) {
        for (size_t i = 0; i < ARRAY_LEN(files); i++)
            files[i].fd = open_beside(files[i].name);
        spec.program = "python3";
        spec.script = files[0].name;
        spec.files = files;
        spec.file_count = ARRAY_LEN(files);
    }
    int r = gb_zygote_start(&spec, ret, err);
    for (size_t i = 0; i < spec.file_count; i++)
        gb_auto_close(&files[i].fd);
    return r;
}

/* --- what a nursery lends --- */

int gb_rehearsal_send(int socket, const struct gb_loan *loan)
{
    const int held[] = {loan->zygote.socket, loan->lease_fd, loan->cradle_fd};
    int fds[ARRAY_LEN(held)];
    unsigned count = 0;
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        if (held[i] >= 0)
            fds[count++] = held[i];
    return gb_channel_send(socket, loan, sizeof(*loan), fds, count);
}

int gb_rehearsal_receive(int socket, struct gb_loan *ret)
{
    int *const held[] = {&ret->zygote.socket, &ret->lease_fd, &ret->cradle_fd};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * ARRAY_LEN(held))];
    } control;
    struct iovec iov = {ret, sizeof(*ret)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*ret))
        return -EPIPE;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    for (size_t i = 0, taken = 0; i < ARRAY_LEN(held); i++)
        if (*held[i] >= 0 && c)
            memcpy(held[i], CMSG_DATA(c) + sizeof(int) * taken++, sizeof(int));
    ret->zygote.pid = 0;
    ret->zygote.pidfd = -1;
    return 0;
}

/* A zygote that others have, too, and what a keeper before us had: its uid and its cradle. */
static int borrow(const char *path, int *ret_lender, struct gb_zygote *zygote, struct gb_box *box,
                  struct gb_err *err)
{
    struct gb_loan loan;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    *ret_lender = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*ret_lender < 0 || connect(*ret_lender, (struct sockaddr *)&address, sizeof(address)) ||
        gb_rehearsal_receive(*ret_lender, &loan))
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "borrow the zygote at '%s'", path);
    *zygote = loan.zygote;
    box->cradle_fd = loan.cradle_fd;
    box->lease_fd = loan.lease_fd;
    if (box->lease_fd >= 0)
        box->receipt.host_uid = box->host_uid = box->host_gid = loan.uid;
    return 0;
}

static void give_back(int lender, const struct gb_box *box)
{
    const struct gb_loan loan = {.zygote = {.socket = -1, .pidfd = -1},
                                 .uid = box->host_uid,
                                 .lease_fd = box->lease_fd,
                                 .cradle_fd = box->cradle_fd};
    (void)gb_rehearsal_send(lender, &loan);
}

/* What boxes leave. The first: sockets with names, in flight within each other, that no process holds any
 * more, for which its cradle is given up. The second, in whose cradle the next will be: memory and cpu time
 * that was used, objects of System V, processes that did not end by themselves. */
static const char sockets[] =
        "import os, socket, time\n"
        "for i in range(32):\n"
        "    a, b, c = socket.socketpair(), socket.socketpair(), socket.socket(socket.AF_UNIX)\n"
        "    c.bind('\\0noise-%d' % i); c.listen()\n"
        "    for x, y in (a, b), (b, a):\n"
        "        for s in *y, c: socket.send_fds(x[0], [b'x'], [s.fileno()])\n";
static const char noise[] = "import ctypes, os, time\n"
                            "libc = ctypes.CDLL(None)\n"
                            "for get in libc.shmget, libc.semget, libc.msgget:\n"
                            "    for key in range(1, 5): get(key, 4 if get is libc.semget else 4096 if get "
                            "is libc.shmget else 0o1666, 0o1666)\n"
                            "if os.fork() == 0:\n"
                            "    os.setsid(); time.sleep(1000)\n"
                            "x = bytes(48 << 20)\n";

static int serve_one(struct gb_box *box, const struct gb_spec *spec, gb_backend_output_fn *on_output,
                     void *context, struct gb_result *result, struct gb_err *err)
{
    AUTO_FD payload = make_payload(spec, err);
    int r = payload < 0 ? payload : gb_launch(box, err);
    box->spec = spec; /* as where a call comes to a box that waits */
    if (!r)
        r = gb_launch_start(box, GB_GO_START, &payload, 1, err);
    return r ? r : gb_native_serve(box, on_output, context, result, err);
}

/* As a keeper does between two calls. */
static int serve_noise(struct gb_box *box, const struct gb_spec *spec, const char *code, struct gb_err *err)
{
    const char *const argv[] = {"python3", "-c", code, NULL};
    struct gb_result result = {0};
    struct gb_spec noisy = *spec;
    noisy.argv = argv;
    noisy.stdin_fd = -1;
    noisy.file_count = noisy.output_count = 0;
    int r = serve_one(box, &noisy, NULL, NULL, &result, err);
    const bool killed = result.kill_reason;
    gb_result_done(&result);
    if (!gb_steps_stand("ns-pid")) /* then nobody has ended what it left */
        gb_cgroup_kill(&box->cgroup);
    if (!r && (killed || !gb_cgroup_recycle(&box->cgroup)))
        gb_cgroup_destroy(&box->cgroup);
    if (!r)
        gb_box_again(box, spec);
    return r;
}

static int serve_both(struct gb_box *box, const struct gb_spec *spec, struct gb_err *err)
{
    const char *other = getenv("GLOVEBOX_TEST_NOISE");
    int r = serve_noise(box, spec, other ? other : sockets, err);
    return r ? r : serve_noise(box, spec, other ? other : noise, err);
}

int gb_rehearsal_run(const struct gb_spec *spec, gb_backend_output_fn *on_output, void *context,
                     struct gb_result *result, struct gb_err *err)
{
    struct gb_zygote zygote = {.socket = -1, .pidfd = -1};
    const char *nursery = getenv("GLOVEBOX_TEST_ZYGOTE");
    struct gb_box box;
    if (spec->rootfs || spec->mount_count)
        return gb_err_set(err, GB_ERR_USAGE, 0, "directories of the host are for boxes without a zygote");
    AUTO_FD lender = -1;
    gb_box_init(&box, spec);
    box.zygote = &zygote;
    int r = nursery ? borrow(nursery, &lender, &zygote, &box, err)
                    : gb_rehearsal_zygote(spec->degraded, &zygote, err);
    if (!r && !strcmp(getenv("GLOVEBOX_TEST_PATH"), "pooled"))
        r = serve_both(&box, spec, err);
    if (!r)
        r = serve_one(&box, spec, on_output, context, result, err);
    if (r == -ECANCELED) {
        gb_native_cancelled(&box, result, err);
        r = 0;
    }
    gb_launch_kill(&box);
    if (!r && lender >= 0)
        give_back(lender, &box);
    gb_box_done(&box);
    if (zygote.pidfd >= 0)
        pidfd_send_signal(zygote.pidfd, SIGKILL, NULL, 0);
    if (zygote.pid > 0)
        (void)waitpid(zygote.pid, NULL, __WALL);
    gb_zygote_retire(&zygote);
    return r;
}

#endif
