/* A stand-in for an exploited process of the service: it confines itself as the real one does and then tries
 * one thing that an attacker would.
 *
 *   standin front|store|launch|broker|broker-file|broker-net|broker-database ATTACK DIR PORT SHM
 *
 * The last three are children of the broker: what they are confined by is around their parent, too.
 *
 * DIR holds what test_confinement.py planted: unix sockets `stream` and `dgram` that listen, and a directory
 * `store`. PORT listens on 127.0.0.1, SHM is the id of shared
 * memory. Exit code: 0 held, 1 it got through, 2 the attack does not exist, 3 could not
 * confine itself. A system call that ends the process (SIGSYS) is held, too. */
#include "confine/confine.h"
#include "confine/narrow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *dir;
static uint16_t port;
static pid_t parent;
static int shm_id, root_fd = -1, listener = -1, answer_fd = -1;

/* --- files: true if it got through --- */

static bool opens(int at, const char *path, int flags)
{
    return openat(at, path, flags | O_CLOEXEC, 0644) >= 0;
}

static bool read_file(void)
{
    return opens(AT_FDCWD, "/etc/passwd", O_RDONLY);
}

static bool climb(void)
{
    return opens(AT_FDCWD, "../../../../../../../../etc/passwd", O_RDONLY);
}

/* From a descriptor that was open before. */
static bool climb_descriptor(void)
{
    return opens(root_fd, "../../../../../../../../etc/passwd", O_RDONLY);
}

static bool list_proc(void)
{
    char buf[1024];
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && syscall(SYS_getdents64, fd, buf, sizeof(buf)) > 64;
}

static bool make_file(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/made-%d", dir, getpid());
    return opens(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL);
}

static bool make_file_here(void)
{
    return opens(AT_FDCWD, "made-here", O_WRONLY | O_CREAT);
}

static bool make_directory(void)
{
    return !mkdir("made-directory", 0755);
}

static bool make_directory_there(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/directory-%d", dir, getpid());
    return !mkdir(path, 0755);
}

static bool open_handle(void)
{
    struct {
        struct file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } handle = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, dir, &handle.head, &mount_id, 0))
        return false;
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return open_by_handle_at(at, &handle.head, O_RDONLY | O_CLOEXEC) >= 0;
}

/* --- the network and other sockets --- */

static bool reaches(int family, int type, const void *address, socklen_t len)
{
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    return fd >= 0 && !connect(fd, address, len);
}

static bool tcp(void)
{
    struct sockaddr_in in = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return reaches(AF_INET, SOCK_STREAM, &in, sizeof(in));
}

/* The front holds sockets that listen in the host's network namespace. Once shut down, such a socket is as
 * good as new, and sending may connect it. Three calls can send. */
static bool fast_open(int (*send)(int, struct msghdr *))
{
    struct sockaddr_in in = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_name = &in, .msg_namelen = sizeof(in), .msg_iov = &iov, .msg_iovlen = 1};
    return !shutdown(listener, SHUT_RDWR) && send(listener, &msg) >= 0;
}

static int by_sendto(int fd, struct msghdr *m)
{
    return (int)sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, m->msg_name, m->msg_namelen);
}

static int by_sendmsg(int fd, struct msghdr *m)
{
    return (int)sendmsg(fd, m, MSG_FASTOPEN | MSG_NOSIGNAL);
}

static int by_sendmmsg(int fd, struct msghdr *m)
{
    struct mmsghdr many = {.msg_hdr = *m};
    return sendmmsg(fd, &many, 1, MSG_FASTOPEN | MSG_NOSIGNAL);
}

static bool fast_open_sendto(void)
{
    return fast_open(by_sendto);
}

static bool fast_open_sendmsg(void)
{
    return fast_open(by_sendmsg);
}

static bool fast_open_sendmmsg(void)
{
    return fast_open(by_sendmmsg);
}

/* What is set on a listening socket stays for the next front. */
static bool socket_option(void)
{
    const int seconds = 3600;
    return !setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
}

static socklen_t unix_address(struct sockaddr_un *un, const char *name)
{
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(un->sun_path, sizeof(un->sun_path), "%s/%s", dir, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
}

static bool unix_path(void)
{
    struct sockaddr_un un;
    socklen_t len = unix_address(&un, "stream");
    return reaches(AF_UNIX, SOCK_STREAM, &un, len);
}

static bool unix_abstract(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "%s/abstract", dir);
    return reaches(AF_UNIX, SOCK_STREAM, &un,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
}

/* A pair of datagram sockets is connected, yet sendto takes it anywhere. */
static bool datagram(void)
{
    int pair[2];
    struct sockaddr_un un;
    socklen_t len = unix_address(&un, "dgram");
    return !socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) &&
           sendto(pair[0], "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&un, len) == 1;
}

static bool netlink(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) >= 0;
}

static bool raw_socket(void)
{
    return socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP) >= 0;
}

static bool take_calls(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && !bind(fd, (struct sockaddr *)&in, sizeof(in)) && !listen(fd, 1);
}

static bool socket_program(void)
{
    struct sock_filter all = {BPF_RET | BPF_K, 0, 0, 0xffff};
    const struct sock_fprog program = {1, &all};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static bool shared_memory(void)
{
    return shmat(shm_id, NULL, SHM_RDONLY) != (void *)-1;
}

/* --- other processes --- */

static bool run_program(void)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"exit 1", NULL}, *env[] = {NULL};
    execve("/bin/sh", argv, env);
    return false;
}

static bool fork_child(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid > 0;
}

static bool trace(void)
{
    return !ptrace(PTRACE_SEIZE, parent, NULL, NULL);
}

static bool signal_parent(void)
{
    return !kill(parent, 0);
}

/* The clock that ends a call of a tool. */
static bool stop_clock(void)
{
    const struct itimerval never = {0};
    return !setitimer(ITIMER_REAL, &never, NULL);
}

static bool become_dumpable(void)
{
    return !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* Calls that the kernel would answer with success, or with an error that shows that it looked at the
 * arguments. */
static bool exists(long r)
{
    return r >= 0 || (errno != ENOSYS && errno != EPERM && errno != EACCES);
}

static bool read_memory(void)
{
    char copy[8];
    struct iovec to = {copy, sizeof(copy)},
                 from = {(void *)4096, sizeof(copy)}; /* nothing is there: EFAULT */
    return exists(process_vm_readv(parent, &to, 1, &from, 1, 0));
}

static bool take_descriptor(void)
{
    int fd = (int)syscall(SYS_pidfd_open, parent, 0);
    return fd >= 0 && syscall(SYS_pidfd_getfd, fd, STDERR_FILENO, 0) >= 0;
}

/* --- privilege --- */

static bool become_root(void)
{
    return getuid() != 0 && !setuid(0);
}

static bool mount_something(void)
{
    return !mount("none", "/", "tmpfs", 0, NULL);
}

static bool remount_writable(void)
{
    return !mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL);
}

static bool new_namespace(void)
{
    return !unshare(CLONE_NEWUSER);
}

static bool make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
}

static bool turn_into_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && !mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static bool bpf(void)
{
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return exists(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static bool io_uring(void)
{
    struct io_uring_params params = {0};
    return exists(syscall(SYS_io_uring_setup, 1, &params));
}

static bool key_ring(void)
{
    return exists(syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3 /* session */, 1));
}

static bool user_fault(void)
{
    return exists(syscall(SYS_userfaultfd, 1 /* user mode only */ | O_CLOEXEC));
}

static bool perf(void)
{
    struct perf_event_attr attr = {
            .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_DUMMY};
    return exists(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static bool set_clock(void)
{
    struct timex never = {.modes = ADJ_TICK,
                          .tick = 1}; /* refused, but only after the right to do it was seen */
    return exists(clock_adjtime(CLOCK_REALTIME, &never));
}

/* --- what the real process must still be able to do: true if something of it fails --- */

static bool front_work(void)
{
    int pair[2], ends[2];
    char bytes[16];
    int fd = memfd_create("work", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *p = malloc(1 << 22);
    p = realloc(p, 1 << 24);
    bool good = p && fd >= 0 && write(fd, "x", 1) == 1 && !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) &&
                !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) &&
                send(pair[0], "x", 1, MSG_NOSIGNAL) == 1 && recv(pair[1], bytes, 1, 0) == 1 &&
                !pipe2(ends, O_CLOEXEC | O_NONBLOCK) && epoll_create1(EPOLL_CLOEXEC) >= 0 &&
                !getentropy(bytes, sizeof(bytes)) && getpid() > 0;
    free(p);
    return !good;
}

static bool store_work(void)
{
    struct stat st;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char here[PATH_MAX];
    int fd = open("work", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 || pwrite(fd, "x", 1, 0) != 1 || fsync(fd) || fdatasync(fd) || ftruncate(fd, 4096) ||
           fcntl(fd, F_SETLK, &lock) || stat("work", &st) || !getcwd(here, sizeof(here)) ||
           fchmod(fd, 0640) || mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ||
           unlink("work");
}

static bool broker_work(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return pid < 0 || fd < 0 || kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status);
}

/* The answer: a sealed memory file over a socket that is open already. */
static bool answer_fails(void)
{
    int fd = memfd_create("result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 || write(fd, "x", 1) != 1 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) ||
           send(answer_fd, "x", 1, MSG_NOSIGNAL) != 1;
}

/* As SQLite works on a database: in its directory, with a journal. */
static bool file_work(void)
{
    char path[PATH_MAX], journal[PATH_MAX];
    struct stat st;
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    snprintf(path, sizeof(path), "%s/store/database", dir);
    snprintf(journal, sizeof(journal), "%s/store/database-journal", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int other = open(journal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 || other < 0 || pwrite(fd, "x", 1, 0) != 1 || fcntl(fd, F_SETLK, &lock) || fsync(other) ||
           ftruncate(fd, 4096) || stat(path, &st) || unlink(journal) ||
           mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED || unlink(path) ||
           answer_fails();
}

static bool reach_fails(void)
{
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    return getaddrinfo("localhost", "1", &hints, &found) || !tcp() || answer_fails();
}

/* A name, then a connection; sockets of this host are not for it. */
static bool net_work(void)
{
    return reach_fails() || !opens(AT_FDCWD, "/etc/ssl/certs", O_RDONLY | O_DIRECTORY);
}

static bool database_work(void)
{
    return reach_fails() || !unix_path();
}

/* Stays until its standard input ends, to be looked at from outside. */
static bool stay(void)
{
    char c;
    (void)!write(STDOUT_FILENO, "in\n", 3);
    return read(STDIN_FILENO, &c, 1) != 0;
}

static const struct {
    const char *name;
    bool (*try)(void);
} attacks[] = {
        {"read_file", read_file},
        {"climb", climb},
        {"climb_descriptor", climb_descriptor},
        {"list_proc", list_proc},
        {"make_file", make_file},
        {"make_file_here", make_file_here},
        {"make_directory", make_directory},
        {"make_directory_there", make_directory_there},
        {"open_handle", open_handle},
        {"tcp", tcp},
        {"socket_option", socket_option},
        {"fast_open_sendto", fast_open_sendto},
        {"fast_open_sendmsg", fast_open_sendmsg},
        {"fast_open_sendmmsg", fast_open_sendmmsg},
        {"unix_path", unix_path},
        {"unix_abstract", unix_abstract},
        {"datagram", datagram},
        {"netlink", netlink},
        {"raw_socket", raw_socket},
        {"take_calls", take_calls},
        {"socket_program", socket_program},
        {"shared_memory", shared_memory},
        {"run_program", run_program},
        {"fork_child", fork_child},
        {"trace", trace},
        {"signal_parent", signal_parent},
        {"stop_clock", stop_clock},
        {"become_dumpable", become_dumpable},
        {"read_memory", read_memory},
        {"take_descriptor", take_descriptor},
        {"become_root", become_root},
        {"mount_something", mount_something},
        {"remount_writable", remount_writable},
        {"new_namespace", new_namespace},
        {"make_code", make_code},
        {"turn_into_code", turn_into_code},
        {"bpf", bpf},
        {"io_uring", io_uring},
        {"key_ring", key_ring},
        {"user_fault", user_fault},
        {"perf", perf},
        {"set_clock", set_clock},
        {"front_work", front_work},
        {"store_work", store_work},
        {"broker_work", broker_work},
        {"file_work", file_work},
        {"net_work", net_work},
        {"database_work", database_work},
        {"stay", stay},
};

static bool is_child(const char *row)
{
    return !strncmp(row, "broker-", strlen("broker-"));
}

/* A child of the broker, as src/broker/child.c makes it. Comes back in the child; the parent ends as the
 * child did. */
static int narrow(const char *row)
{
    static const char *const files[] = {"/etc/resolv.conf", "/etc/hosts",   "/etc/nsswitch.conf",
                                        "/etc/ssl/certs",   "/nonexistent", NULL};
    char path[PATH_MAX];
    int pair[2], status;
    const bool file = !strcmp(row, "broker-file");
    const pid_t broker = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return -1;
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid > 0) {
        while (waitpid(pid, &status, 0) != pid)
            ;
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) == SIGSYS ? 0 : 4);
    }
    answer_fd = pair[0];
    parent = broker;
    snprintf(path, sizeof(path), "%s/store", dir);
    const struct gb_narrow n = {.name = row,
                                .read = file ? NULL : files,
                                .dir = file ? path : NULL,
                                .write = true,
                                .tcp = !file,
                                .cpu_seconds = 60,
                                .open_files = 64,
                                .degraded = getenv("DEGRADED")};
    struct gb_err err = {0};
    int r = gb_narrow_enter(&n, broker, &err);
    if (r)
        fprintf(stderr, "%s\n", err.text);
    return r;
}

/* The broker shares the host's mounts. What is tried here with walls down must not: it is for good. */
static int leave_mounts(void)
{
    return geteuid() == 0 && (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

/* As the real programs do it. */
static int confine(const char *row)
{
    char path[PATH_MAX];
    struct gb_confine c = {.name = is_child(row) ? "broker" : row,
                           .root_fd = -1,
                           .rw_fd = -1,
                           .open_files = 1024,
                           .degraded = getenv("DEGRADED")};
    if (!strcmp(row, "front")) {
        c.uid = GB_UID_FRONT;
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (listener < 0 || listen(listener, 1))
            return -1;
    }
    if (!strcmp(row, "store")) {
        c.uid = GB_UID_STORE;
        snprintf(path, sizeof(path), "%s/store", dir);
        c.root_fd = c.rw_fd = root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (!strcmp(row, "launch")) {
        c.keep_root = true;
        c.open_files = 0;
    }
    if (!strncmp(row, "broker", strlen("broker"))) {
        c.uid = GB_UID_BROKER;
        c.keep_host = true;
        if (leave_mounts())
            return -1;
    }
    struct gb_err err = {0};
    int r = gb_confine_enter(&c, parent, &err);
    if (r)
        fprintf(stderr, "%s\n", err.text);
    return r || !is_child(row) ? r : narrow(row);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    dir = argv[3];
    port = (uint16_t)strtoul(argv[4], NULL, 10);
    shm_id = (int)strtol(argv[5], NULL, 10);
    parent = getppid();
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        if (strcmp(attacks[i].name, argv[2]))
            continue;
        if (confine(argv[1]))
            _exit(3); /* half confined already: a leak checker could not work */
        _exit(attacks[i].try() ? 1 : 0);
    }
    return 2;
}
