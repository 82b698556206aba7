#include "confine/walls.h"

#include "base/landlock.h"
#include "base/text.h"
#include "confine/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

int gb_walls_fail(struct gb_err *err, int errnum, const char *what)
{
    return gb_err_set(err, GB_ERR_LAYER, errnum, "%s", what);
}

int gb_walls_limit(int resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)resource, &now))
        return -1;
    if (value > now.rlim_max)
        value = now.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &(struct rlimit){value, value});
}

int gb_walls_die_with(pid_t parent, struct gb_err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
        return gb_walls_fail(err, errno, "ask to die with the process that started us");
    return getppid() == parent ? 0 : gb_walls_fail(err, ESRCH, "the process that started us is dead");
}

uint64_t gb_walls_known(uint64_t rights)
{
    const int abi = gb_landlock_version();
    return rights & (GB_LL_ABI1 | (abi >= 2 ? GB_LL_REFER : 0U) | (abi >= 3 ? GB_LL_TRUNCATE : 0U) |
                     (abi >= 5 ? GB_LL_IOCTL_DEV : 0U));
}

int gb_walls_ruleset(const char *degraded, uint64_t tcp, int *ret_ruleset, struct gb_err *err)
{
    const int abi = gb_landlock_version();
    *ret_ruleset = -1;
    if (!abi && degraded && gb_text_in_list(degraded, "landlock"))
        return 0;
    if (!abi) {
        gb_walls_fail(err, ENOSYS, "this kernel has no landlock");
        gb_err_hint(err,
                    "boot a kernel from 5.13 on with landlock in its lsm= list, or allow to go without it");
        return -ENOSYS;
    }
    const struct gb_landlock_attr attr = {.fs = gb_walls_known(UINT64_MAX),
                                          .net = abi >= 4 ? tcp : 0,
                                          .scoped = abi >= 6 ? GB_LL_SCOPES : 0};
    int fd = gb_landlock_create(&attr);
    if (fd < 0)
        return gb_walls_fail(err, errno, "make a landlock ruleset");
    *ret_ruleset = fd;
    return 0;
}

int gb_walls_filter(const char *name, struct gb_err *err)
{
    const struct gb_confine_filter *f = NULL;
    for (unsigned i = 0; i < gb_confine_filter_count; i++)
        if (!strcmp(gb_confine_filters[i].name, name))
            f = &gb_confine_filters[i];
    if (!f)
        return gb_walls_fail(err, ENOENT, "there is no system call policy of that name");
    const struct sock_fprog program = {(unsigned short)f->len, (struct sock_filter *)f->code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)
                   ? gb_walls_fail(err, errno, "load the filter")
                   : 0;
}
