/* Privilege: none, and no way to any. */
#include "sandbox/steps.h"

#include "base/wall.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* no-new-privs. Should: make setuid bits and file capabilities mean nothing, for ever. */
int gb_caps_no_new_privs(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "set no_new_privs");
    return 0;
}

#ifdef GB_TESTING
/* The opposite, for positive controls: exec takes an ordinary user's capabilities away, unless they are
 * ambient. */
static int keep_everything(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2];
    syscall(SYS_capget, &header, all);
    for (int i = 0; i < 2; i++)
        all[i].inheritable = all[i].permitted;
    syscall(SYS_capset, &header, all);
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
    return 0;
}
#endif

/* What limits a process in the capabilities that it can get, but takes none that it has. Must not: stop at
 * those that our headers know: the kernel tells how many there are. */
int gb_caps_bound(struct gb_err *err)
{
    if (!GB_WALL("caps"))
        return 0;
    const unsigned long locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (GB_WALL("securebits") && prctl(PR_SET_SECUREBITS, locked, 0, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "lock securebits");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "clear ambient capabilities");
    unsigned long cap = 0;
    while (GB_WALL("bounding") && !prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
        cap++;
    if (GB_WALL("bounding") &&
        (errno != EINVAL || cap == 0)) /* EINVAL: there is no such capability any more */
        return gb_err_set(err, GB_ERR_LAYER, errno, "drop capability %lu from the bounding set", cap);
    return 0;
}

/* capabilities. Should: empty all five sets and lock securebits, so that not even uid 0 would regain any. */
int gb_caps_drop(struct gb_box *box, struct gb_err *err)
{
#ifdef GB_TESTING
    if (!GB_WALL("caps"))
        return keep_everything();
#endif
    int r = box->warm ? 0 : gb_caps_bound(err);
    if (r)
        return r;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &header, none))
        return gb_err_set(err, GB_ERR_LAYER, errno, "empty the capability sets");
    return 0;
}
