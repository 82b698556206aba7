#include "serve/child.h"

#include "base/auto.h"
#include "base/log.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CHANNEL 3

static const char *const names[GB_CHILDREN] = {
        [GB_CHILD_STORE] = "store",
        [GB_CHILD_LAUNCH] = "launch",
        [GB_CHILD_BROKER] = "broker",
        [GB_CHILD_FRONT] = "front",
};

/* --- where the programs are --- */

static int find_in(struct gb_child children[GB_CHILDREN], const char *dir)
{
    for (size_t i = 0; i < GB_CHILDREN; i++) {
        struct gb_child *c = &children[i];
        struct stat st;
        if (snprintf(c->program, sizeof(c->program), "%s/glovebox-%s", dir, c->name) >=
            (int)sizeof(c->program))
            return -ENAMETOOLONG;
        if (stat(c->program, &st))
            return -errno;
        if (!S_ISREG(st.st_mode))
            return -ENOENT;
    }
    return 0;
}

int gb_child_find_all(struct gb_child children[GB_CHILDREN], struct gb_err *err)
{
    static const char *const places[] = {"", "/../libexec/glovebox"};
    char exe[PATH_MAX], dir[PATH_MAX + 32];
    int r = -ENOENT;
    for (size_t i = 0; i < GB_CHILDREN; i++)
        children[i] = (struct gb_child){.name = names[i], .channel.fd = -1};
#ifdef GB_TESTING
    const char *elsewhere = getenv("GLOVEBOX_TEST_LIBEXEC");
    if (elsewhere && !find_in(children, elsewhere))
        return 0;
#endif
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0)
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "find our own program");
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(dir, sizeof(dir), "%s%s", exe, places[i]);
        r = find_in(children, dir);
        if (!r)
            return 0;
    }
    return gb_err_set(err, GB_ERR_INTERNAL, -r,
                      "the programs glovebox-store, -launch, -broker and -front are neither in %s nor in %s",
                      exe, dir);
}

/* --- starting --- */

/* From fork to exec. Descriptors that somebody has left open in us (a shell, a manager) end here: the child
 * gets the four that it is told of. SIGPIPE stays ignored as it is in us: a reader of our log that went away
 * must end nobody. */
static int prepare(int channel, int cwd_fd, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || sigprocmask(SIG_SETMASK, &none, NULL) || setsid() < 0)
        return -errno;
    if (getppid() != parent)
        return -ESRCH; /* it died before we could ask to die with it */
    if (cwd_fd >= 0 ? fchdir(cwd_fd) : chdir("/"))
        return -errno;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high_fd =
            fcntl(channel, F_DUPFD_CLOEXEC, CHANNEL + 1); /* dup2 onto itself would leave it close-on-exec */
    if (null_fd < 0 || high_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
        dup2(high_fd, CHANNEL) < 0 || close_range(CHANNEL + 1, ~0U, 0))
        return -errno;
    return 0;
}

int gb_child_start(struct gb_child *c, int cwd_fd, struct gb_err *err)
{
    char *const argv[] = {c->program, NULL};
#ifdef GB_TESTING
    char *const *env = environ; /* walls to take down, and what sanitizers are told */
#else
    char *const env[] = {NULL};
#endif
    int pair[2];
    int r = gb_msg_pair(pair);
    if (r)
        return gb_err_set(err, GB_ERR_INTERNAL, -r, "make a channel to the %s", c->name);
    AUTO_FD ours = pair[0], theirs = pair[1];
    /* Our end does not wait: a child that hangs must not make us hang. */
    if (fcntl(ours, F_SETFL, O_NONBLOCK))
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "make a channel to the %s", c->name);
    const pid_t self = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return gb_err_set(err, GB_ERR_BUSY, errno, "start the %s", c->name);
    if (pid == 0) {
        r = prepare(theirs, cwd_fd, self);
        if (!r) {
            execve(c->program, argv, env);
            r = -errno;
        }
        gb_log(GB_LOG_ERROR, "cannot start", GB_S("program", c->program), GB_S("why", strerror(-r)));
        _exit(126);
    }
    c->pid = pid;
    c->ready = false;
    c->channel = (struct gb_source){.fd = TAKE_FD(ours), .ready = c->channel.ready};
    return 0;
}

void gb_child_forget(struct gb_child *c, struct gb_loop *loop)
{
    if (c->channel.fd >= 0) {
        gb_loop_forget(loop, &c->channel);
        close(TAKE_FD(c->channel.fd));
    }
    gb_loop_at(loop, &c->hung_up, 0);
    c->pid = 0;
    c->ready = false;
}

const char *gb_child_describe(int wait_status, char *buf, size_t size)
{
    if (WIFEXITED(wait_status))
        snprintf(buf, size, "exit code %d", WEXITSTATUS(wait_status));
    else
        snprintf(buf, size, "signal %d (%s)%s", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)),
                 WTERMSIG(wait_status) == SIGSYS ? ": it made a system call that its filter does not have"
                                                 : "");
    return buf;
}
