/* Probes of what a box is: user, privilege, limits, inherited state. */
#include "probe/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum verdict probe_id_map(void)
{
    static const char *const maps[] = {"/proc/self/uid_map", "/proc/self/gid_map"};
    for (size_t i = 0; i < COUNT(maps); i++) {
        unsigned inside = 0, outside = 0, count = 0;
        const char *text = slurp(maps[i]);
        if (sscanf(text, "%u %u %u", &inside, &outside, &count) != 3 || count != 1 || inside != 1000)
            return escaped("%s is '%s'", maps[i], text);
    }
    return strchr(slurp(maps[0]), '\n') && strchr(slurp(maps[0]), '\n')[1]
                   ? escaped("uid_map has more than one line")
                   : HELD;
}

enum verdict probe_set_groups(void)
{
    return strncmp(slurp("/proc/self/setgroups"), "deny", 4) ? escaped("groups may be set") : HELD;
}

enum verdict probe_identity(void)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;
    getresuid(&r, &e, &s);
    getresgid(&rg, &eg, &sg);
    bool same = r == 1000 && e == 1000 && s == 1000 && rg == 1000 && eg == 1000 && sg == 1000;
    return same ? HELD
                : escaped("uid %d %d %d, gid %d %d %d", (int)r, (int)e, (int)s, (int)rg, (int)eg, (int)sg);
}

enum verdict probe_change_id(void)
{
    for (id_t id = 0; id < 1000; id++)
        if (!setuid(id) || !setgid(id) || !setresuid(id, id, id) || !setreuid(id, id) ||
            !setresgid(id, id, id))
            return escaped("became %d", (int)id);
    gid_t none = 0;
    if (!setgroups(1, &none))
        return escaped("set groups");
    setfsuid(0);
    return (uid_t)setfsuid((uid_t)-1) == 0 ? escaped("set the file system uid") : HELD;
}

enum verdict probe_capabilities(void)
{
    static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    for (size_t i = 0; i < COUNT(sets); i++)
        if (strtoull(status_field(sets[i]), NULL, 16))
            return escaped("%s is %s", sets[i], status_field(sets[i]));
    int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    const int want = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
                     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    return (bits & want) == want ? HELD : escaped("securebits are 0x%x", (unsigned)bits);
}

enum verdict probe_new_privileges(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? HELD : escaped("no_new_privs is off");
}

enum verdict probe_filter_on(void)
{
    return !strcmp(status_field("Seccomp"), "2") ? HELD : escaped("Seccomp is '%s'", status_field("Seccomp"));
}

enum verdict probe_descriptors(void)
{
    char target[256];
    DIR *d = opendir("/proc/self/fd");
    if (!d)
        return unclear("/proc/self/fd cannot be read");
    for (struct dirent *e; (e = readdir(d));) {
        int fd = atoi(e->d_name);
        ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        bool ours = fd == dirfd(d) || fd == note_fd;
        if (e->d_name[0] != '.' && !ours && (strncmp(target, "pipe:", 5) || fd > 2))
            return escaped("descriptor %d is %s", fd, target);
    }
    closedir(d);
    return HELD;
}

enum verdict probe_inherited(void)
{
    static const char *const masks[] = {"SigBlk", "SigIgn", "SigCgt"};
    for (size_t i = 0; i < COUNT(masks); i++)
        if (strtoull(status_field(masks[i]), NULL, 16))
            return escaped("%s is %s", masks[i], status_field(masks[i]));
    mode_t mask = umask(0);
    if (mask != 022)
        return escaped("the umask is %03o", (unsigned)mask);
    if (personality(0xffffffff) != PER_LINUX)
        return escaped("the personality is 0x%x", (unsigned)personality(0xffffffff));
    if (getpriority(PRIO_PROCESS, 0) < 0 || sched_getscheduler(0) != SCHED_OTHER)
        return escaped("the priority is better than the default");
    if (atoi(slurp("/proc/self/oom_score_adj")) < 500)
        return escaped("oom_score_adj is %s", slurp("/proc/self/oom_score_adj"));
    return getsid(0) == 1 ? HELD : escaped("the session is %d, not the box's own", getsid(0));
}

enum verdict probe_limits(void)
{
    static const struct {
        int resource;
        rlim_t most;
        const char *name;
    } rows[] = {
            {RLIMIT_NOFILE, 256, "open files"},       {RLIMIT_CPU, 11, "cpu"},
            {RLIMIT_MEMLOCK, 65536, "locked memory"}, {RLIMIT_SIGPENDING, 1024, "signals"},
            {RLIMIT_RTPRIO, 0, "realtime"},           {RLIMIT_NICE, 0, "nice"},
            {RLIMIT_NPROC, 66, "processes"}, /* with PID 1, and who bears it */
    };
    struct rlimit core = {0, 0};
    if (getrlimit(RLIMIT_CORE, &core) || core.rlim_cur != 1 || core.rlim_max != 1)
        return escaped("the core limit is %llu", (unsigned long long)core.rlim_cur);
    core.rlim_cur = 0; /* what programs do that want no cores: it seems to work, and changes nothing */
    setrlimit(RLIMIT_CORE, &core);
    syscall(SYS_prlimit64, 0, RLIMIT_CORE, &core, NULL);
    if (getrlimit(RLIMIT_CORE, &core) || core.rlim_cur != 1)
        return escaped("the core limit can be changed to %llu", (unsigned long long)core.rlim_cur);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct rlimit l;
        if (getrlimit((__rlimit_resource_t)rows[i].resource, &l) || l.rlim_cur > rows[i].most ||
            l.rlim_max > rows[i].most)
            return escaped("%s is limited to %llu", rows[i].name, (unsigned long long)l.rlim_max);
    }
    return HELD;
}

enum verdict probe_scheduling(void)
{
    struct sched_param param = {.sched_priority = 1};
    if (!setpriority(PRIO_PROCESS, 0, -20))
        return escaped("nice -20");
    if (!sched_setscheduler(0, SCHED_FIFO, &param) || !sched_setscheduler(0, SCHED_RR, &param))
        return escaped("realtime scheduling");
    return syscall(SYS_ioprio_set, 1, 0, 1 << 13) ? HELD : escaped("realtime i/o priority");
}
