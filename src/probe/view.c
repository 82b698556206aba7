/* Probes of what a box can see and change: files, mounts, /proc, /dev, names. */
#include "probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- directories --- */

/* The first entry of dir that is not in the list, or NULL. Names that start with a digit pass if digits is
 * set. */
static const char *stranger(const char *dir, const char *const *known, size_t count, bool digits)
{
    static char found[256];
    DIR *d = opendir(dir);
    if (!d)
        return NULL;
    *found = '\0';
    for (struct dirent *e; !*found && (e = readdir(d));) {
        bool good = e->d_name[0] == '.' || (digits && e->d_name[0] >= '0' && e->d_name[0] <= '9');
        for (size_t i = 0; i < count; i++)
            good = good || !strcmp(e->d_name, known[i]);
        if (!good)
            snprintf(found, sizeof(found), "%s", e->d_name);
    }
    closedir(d);
    return *found ? found : NULL;
}

enum verdict probe_host_files(void)
{
    static const char *const dirs[] = {"/root", "/home",     "/var/lib", "/run", "/sys",
                                       "/boot", "/proc/sys", "/srv",     "/opt", "/mnt"};
    for (size_t i = 0; i < COUNT(dirs); i++) {
        DIR *d = opendir(dirs[i]);
        if (d)
            return escaped("opened %s", dirs[i]);
    }
    int fd = open("/etc/shadow", O_RDONLY);
    return fd >= 0 ? escaped("opened /etc/shadow") : HELD;
}

enum verdict probe_old_root(void)
{
    static const char *const known[] = {"bin",  "dev",  "etc", "lib",     "lib32", "lib64", "libx32",
                                        "proc", "sbin", "tmp", "sandbox", "usr",   "data"};
    struct statfs root;
    const char *other = stranger("/", known, COUNT(known), false);
    if (other)
        return escaped("the root holds '%s'", other);
    for (const char *p = slurp("/proc/self/mountinfo"); p && *p;
         p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        char where[256] = "";
        sscanf(p, "%*s %*s %*s %*s %255s", where);
        bool good = !strcmp(where, "/");
        for (size_t i = 0; i < COUNT(known); i++)
            good = good || (where[0] == '/' && !strncmp(where + 1, known[i], strlen(known[i])));
        if (!good)
            return escaped("a mount at %s", where);
    }
    return statfs("/", &root) || root.f_type != TMPFS_MAGIC ? escaped("the root directory is not a box's")
                                                            : HELD;
}

enum verdict probe_system_write(void)
{
    static const char *const dirs[] = {"/usr",     "/usr/bin",          "/bin", "/usr/lib",
                                       "/usr/src", "/etc/alternatives", "/data"};
    char path[256];
    for (size_t i = 0; i < COUNT(dirs); i++) {
        snprintf(path, sizeof(path), "%s/glovebox-probe-file", dirs[i]);
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (fd < 0 && errno == ENOENT)
            continue; /* only the tests mount something at /data or /usr/src: a directory that anybody may
                         write */
        if (fd >= 0 || (errno != EROFS && errno != EACCES)) {
            unlink(path);
            return escaped("creating %s: %s", path, fd >= 0 ? "worked" : strerror(errno));
        }
    }
    const int file = open("/usr/bin/env", O_WRONLY);
    if (file >= 0)
        return escaped("opened /usr/bin/env for writing");
    if (!chmod("/usr/bin/env", 0755) || !utimensat(AT_FDCWD, "/usr/bin/env", NULL, 0) ||
        !truncate("/usr/bin/env", 0))
        return escaped("changed /usr/bin/env");
    return rename("/usr/bin/env", "/usr/bin/env2") ? HELD : escaped("renamed /usr/bin/env");
}

enum verdict probe_root_write(void)
{
    static const char *const paths[] = {"/glovebox-probe-file", "/etc/glovebox-probe-file",
                                        "/dev/glovebox-probe-file"};
    for (size_t i = 0; i < COUNT(paths); i++)
        if (open(paths[i], O_CREAT | O_EXCL | O_WRONLY, 0644) >= 0)
            return escaped("created %s", paths[i]);
    return HELD;
}

enum verdict probe_root_flag(void)
{
    struct statvfs fs;
    struct stat root;
    if (statvfs("/", &fs) || !(fs.f_flag & ST_RDONLY))
        return escaped("the root is mounted writable");
    return stat("/", &root) || root.st_mode & 022 ? escaped("anybody may write to the root") : HELD;
}

enum verdict probe_mount_flags(void)
{
    static const char *const writable[] = {"/sandbox", "/tmp", "/dev/shm"};
    for (const char *p = slurp("/proc/self/mountinfo"); p && *p;
         p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        char where[256] = "", flags[256] = "";
        sscanf(p, "%*s %*s %*s %*s %255s %255s", where, flags);
        bool may_write = false, device = !strncmp(where, "/dev/", 5) && strcmp(where, "/dev/shm");
        for (size_t i = 0; i < COUNT(writable); i++)
            may_write = may_write || !strcmp(where, writable[i]);
        if (!strstr(flags, "nosuid") || (!device && !strstr(flags, "nodev")))
            return escaped("%s is mounted %s", where, flags);
        if (!may_write && strncmp(flags, "ro", 2))
            return escaped("%s is mounted %s", where, flags);
    }
    return HELD;
}

enum verdict probe_propagation(void)
{
    const char *text = slurp("/proc/self/mountinfo");
    return strstr(text, " shared:") || strstr(text, " master:") ? escaped("a mount propagates") : HELD;
}

enum verdict probe_etc_contents(void)
{
    static const char
            *const known[] = {"alternatives", "fonts",        "group",   "hostname",
                              "hosts",        "ld.so.cache",  "passwd",  "nsswitch.conf",
                              "ssl",          "matplotlibrc", "glovebox" /* ours: what waits there */};
    const char *passwd = slurp("/etc/passwd");
    int lines = 0;
    for (const char *p = passwd; (p = strchr(p, '\n')); p++)
        lines++;
    if (lines != 3 || !strstr(passwd, "\nsandbox:x:1000:"))
        return escaped("/etc/passwd is not the box's own: %d lines", lines);
    const char *other = stranger("/etc", known, COUNT(known), false);
    return other ? escaped("/etc holds '%s'", other) : HELD;
}

/* --- /proc --- */

enum verdict probe_proc_contents(void)
{
    static const char *const known[] = {"self", "thread-self"};
    const char *other = stranger("/proc", known, COUNT(known), true);
    if (other)
        return escaped("/proc holds '%s'", other);
    return access("/proc/self/status", R_OK) ? escaped("/proc is not the box's own") : HELD;
}

enum verdict probe_proc_write(void)
{
    static const char *const paths[] = {
            "/proc/self/oom_score_adj", "/proc/self/comm",       "/proc/self/coredump_filter",
            "/proc/self/uid_map",       "/proc/self/mem",        "/proc/self/timerslack_ns",
            "/proc/sysrq-trigger",      "/proc/1/oom_score_adj", "/proc/sys/kernel/core_pattern"};
    for (size_t i = 0; i < COUNT(paths); i++)
        if (open(paths[i], O_WRONLY) >= 0)
            return escaped("opened %s for writing", paths[i]);
    return HELD;
}

enum verdict probe_init_secrets(void)
{
    static const char *const names[] = {"environ", "cmdline", "maps", "mem",   "fd",
                                        "root",    "cwd",     "exe",  "status"};
    char path[64], target[256];
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof(path), "/proc/1/%s", names[i]);
        if (open(path, O_RDONLY) >= 0 || readlink(path, target, sizeof(target)) >= 0)
            return escaped("opened %s", path);
    }
    return open("/proc/self/exe", O_WRONLY) < 0 ? HELD : escaped("opened the own program for writing");
}

enum verdict probe_see_processes(void)
{
    if (getpid() > 30000)
        return escaped("the own pid is %d", getpid());
    for (pid_t pid = 1; pid < 65536; pid++) {
        bool there = !kill(pid, 0) || errno == EPERM;
        if (there && pid > 1 && pid != getpid() && pid != getppid())
            return escaped("process %d is in reach", pid);
    }
    /* From inside its namespace nobody can kill PID 1. */
    kill(1, SIGKILL);
    return HELD;
}

/* --- devices, scratch, names --- */

enum verdict probe_dev_contents(void)
{
    static const char *const known[] = {"null", "zero",  "full",   "random", "urandom",
                                        "fd",   "stdin", "stdout", "stderr", "shm"};
    const char *other = stranger("/dev", known, COUNT(known), false);
    if (other)
        return escaped("/dev holds '%s'", other);
    if (open("/dev/tty", O_RDWR) >= 0)
        return escaped("there is a terminal");
    return open("/dev/null", O_RDWR) < 0 ? escaped("/dev is not the box's own") : HELD;
}

enum verdict probe_make_device(void)
{
    const char *const paths[] = {"/sandbox/probe-device", "/tmp/probe-device", "/dev/shm/probe-device"};
    for (size_t i = 0; i < COUNT(paths); i++)
        if (!mknod(paths[i], S_IFCHR | 0666, makedev(1, 1)) ||
            !mknod(paths[i], S_IFBLK | 0666, makedev(7, 0)))
            return escaped("made %s", paths[i]);
    return HELD;
}

enum verdict probe_scratch_size(void)
{
    static const char *const dirs[] = {"/sandbox", "/tmp", "/dev/shm"};
    struct statvfs fs;
    for (size_t i = 0; i < COUNT(dirs); i++) {
        if (statvfs(dirs[i], &fs))
            return escaped("%s is missing", dirs[i]);
        if ((unsigned long long)fs.f_blocks * fs.f_frsize != 100ULL << 20 || fs.f_files > 32768 ||
            !fs.f_files)
            return escaped("%s has %llu bytes and %llu inodes", dirs[i],
                           (unsigned long long)fs.f_blocks * fs.f_frsize, (unsigned long long)fs.f_files);
    }
    return HELD;
}

enum verdict probe_work_dir(void)
{
    char cwd[256] = "";
    struct stat here, there;
    if (!getcwd(cwd, sizeof(cwd)) || strcmp(cwd, "/sandbox"))
        return escaped("the working directory is '%s'", cwd);
    /* Not one of that name which lies below the box's own. */
    return stat(".", &here) || stat("/sandbox", &there) || here.st_dev != there.st_dev ||
                           here.st_ino != there.st_ino
                   ? escaped("the working directory is another /sandbox than the box's")
                   : HELD;
}

enum verdict probe_interfaces(void)
{
    const char *text = slurp("/proc/self/net/dev");
    int lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    if (lines != 3 || !strstr(text, "lo:"))
        return escaped("%d interfaces", lines - 2);
    return *slurp("/proc/self/net/route") && strchr(strchr(slurp("/proc/self/net/route"), '\n') + 1, '\n')
                   ? escaped("there is a route")
                   : HELD;
}

/* The tests put an abstract socket of this name on the host, in every mode. */
enum verdict probe_abstract_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0glovebox-probe-listener"};
    socklen_t len =
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen("glovebox-probe-listener"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd >= 0 && !connect(fd, (struct sockaddr *)&address, len)
                   ? escaped("connected to a socket of the host")
                   : HELD;
}

enum verdict probe_ipc_objects(void)
{
    union {
        struct shm_info shm;
        struct msginfo msg;
        struct seminfo sem;
    } info;
    memset(&info, 0, sizeof(info));
    if (shmctl(0, SHM_INFO, (struct shmid_ds *)&info) >= 0 && info.shm.used_ids)
        return escaped("%d shared memory segments", info.shm.used_ids);
    memset(&info, 0, sizeof(info));
    if (msgctl(0, MSG_INFO, (struct msqid_ds *)&info) >= 0 && info.msg.msgpool)
        return escaped("%d message queues", info.msg.msgpool);
    memset(&info, 0, sizeof(info));
    return semctl(0, 0, SEM_INFO, &info.sem) >= 0 && info.sem.semusz
                   ? escaped("%d semaphores", info.sem.semusz)
                   : HELD;
}

enum verdict probe_host_name(void)
{
    struct utsname u;
    return uname(&u) || strcmp(u.nodename, "glovebox") ? escaped("the name is '%s'", u.nodename) : HELD;
}

enum verdict probe_cgroup_path(void)
{
    static char text[8192];
    snprintf(text, sizeof(text), "%s", slurp("/proc/self/cgroup"));
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (strlen(line) < 3 || strcmp(line + strlen(line) - 2, ":/"))
            return escaped("the cgroup is '%s'", line);
    return strstr(slurp("/proc/self/mountinfo"), " - cgroup") ? escaped("cgroups are mounted") : HELD;
}

/* Asking the random device for its entropy count harms nobody and needs no right: only landlock (ABI 5) says
 * no. */
enum verdict probe_second_wall(void)
{
    int count = 0, fd = open("/dev/urandom", O_RDONLY);
    if (fd < 0)
        return unclear("/dev/urandom cannot be opened");
    if (ioctl(fd, 0x80045200 /* RNDGETENTCNT */, &count) == 0) {
        struct utsname u;
        int major = 0, minor = 0;
        bool old = !uname(&u) && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
                   (major < 6 || (major == 6 && minor < 10));
        return old ? unclear("this kernel's landlock has no walls that the others do not have too")
                   : escaped("ioctl on a device");
    }
    return HELD;
}
