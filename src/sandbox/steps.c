#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/text.h"
#include "base/wall.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define USERNS_REMEDY                                                                                        \
    "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1 (Debian), "  \
    "kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile (Ubuntu), or run as root"
#define PROC_REMEDY "the kernel gives a new /proc only if ours is not masked: in a container, unmask /proc"
#define CG_REMEDY   "run as root, or under: systemd-run --user --scope -p Delegate=yes glovebox run …"

/* Order is the order of execution within a side. Prepare, clone, then parent and box at the same time. */
const struct gb_step gb_steps[] = {
        {"ns-user", "namespaces", GB_SIDE_CLONE, false, "3.8",
         "capabilities used while setting up would be capabilities on the host", USERNS_REMEDY, CLONE_NEWUSER,
         NULL, GB_SIDE_CRADLE, NULL},
        {"ns-mount", "namespaces", GB_SIDE_CLONE, false, "2.4.19", "mounts would change the host's tree",
         USERNS_REMEDY, CLONE_NEWNS, NULL},
        {"ns-pid", "namespaces", GB_SIDE_CLONE, false, "2.6.24",
         "the box could see and signal other processes, and outlive its end", USERNS_REMEDY, CLONE_NEWPID,
         NULL},
        {"ns-ipc", "namespaces", GB_SIDE_CLONE, false, "2.6.19",
         "System V and POSIX message objects would pass data between runs", USERNS_REMEDY, CLONE_NEWIPC,
         NULL},
        {"ns-uts", "namespaces", GB_SIDE_CLONE, false, "2.6.19", "the host's name would show", USERNS_REMEDY,
         CLONE_NEWUTS, NULL, GB_SIDE_CRADLE, NULL},

        {"uid", "namespaces", GB_SIDE_PARENT, false, "3.8",
         "boxes that run at once would own each other's files and could be confused with a host user",
         "make /run/glovebox writable for root", 0, gb_userns_lease, GB_SIDE_PREPARE, NULL},
        {"idmap", "namespaces", GB_SIDE_PARENT, false, "3.8",
         "without a map the box has no user; with a wide one it has too many", USERNS_REMEDY, 0,
         gb_userns_map, GB_SIDE_CRADLE, gb_userns_map_self},
        {"cgroup", "resources", GB_SIDE_CGROUP, true, "4.5 (v2), 2.6.24 (v1)",
         "memory, processes and cpu would be bounded per process only, so not at all", CG_REMEDY, 0,
         gb_cgroup_step_create, GB_SIDE_PREPARE, NULL},
        {"mount-private", "filesystem", GB_SIDE_BOX, false, "2.6.15",
         "later mounts on the host would appear in the box", "", 0, gb_mount_private, GB_SIDE_TEMPLATE, NULL},
        {"identity", "privilege", GB_SIDE_BOX, false, "3.8", "the program would run under an id of the host",
         USERNS_REMEDY, 0, gb_userns_identity, GB_SIDE_CRADLE, NULL},
        {"root", "filesystem", GB_SIDE_BOX, false, "5.2", "the program would see the host's files", "", 0,
         gb_mount_root, GB_SIDE_TEMPLATE, gb_mount_template},
        {"etc", "filesystem", GB_SIDE_BOX, false, "5.2", "the host's users and configuration would show", "",
         0, gb_mount_etc, GB_SIDE_TEMPLATE, NULL},
        {"dev", "filesystem", GB_SIDE_BOX, false, "5.2", "the host's devices would be in reach", "", 0,
         gb_mount_dev, GB_SIDE_TEMPLATE, NULL},
        {"scratch", "filesystem", GB_SIDE_BOX, false, "5.2",
         "writes would have no limit and would outlive the run", "", 0, gb_mount_scratch},
        {"proc", "filesystem", GB_SIDE_BOX, false, "5.8", "/proc would show the host and could be written",
         PROC_REMEDY, 0, gb_mount_proc},
        {"mounts", "filesystem", GB_SIDE_BOX, false, "5.2",
         "a directory shown to the box could be changed by it", "", 0, gb_mount_extra, GB_SIDE_TEMPLATE,
         NULL},
        {"cgroup-join", "resources", GB_SIDE_BOX, false, "2.6.24",
         "the limits would hold for an empty cgroup", CG_REMEDY, 0, gb_cgroup_step_join},
        {"files", "working directory", GB_SIDE_BOX, false, "5.6", "the call's own files would be missing", "",
         0, gb_files_put, GB_SIDE_START, gb_files_sent},
        {"pivot", "filesystem", GB_SIDE_BOX, false, "2.3.41",
         "the host's root would still be there to climb to", "", 0, gb_mount_pivot, GB_SIDE_TEMPLATE, NULL},
        {"read-only", "filesystem", GB_SIDE_BOX, false, "2.6.26", "the box could change its own system files",
         "", 0, gb_mount_readonly, GB_SIDE_TEMPLATE, NULL},
        {"ns-cgroup", "namespaces", GB_SIDE_BOX, true, "4.6", "the cgroup path would tell about the host", "",
         0, gb_cgroup_step_namespace},
        {"hostname", "namespaces", GB_SIDE_BOX, false, "2.6.19", "the host's name would show", "", 0,
         gb_process_hostname, GB_SIDE_CRADLE, NULL},
        {"no-nested-userns", "namespaces", GB_SIDE_BOX, true, "4.9",
         "a nested user namespace opens kernel code that only root should reach",
         "make /proc/sys/user writable", 0, gb_userns_forbid_nested, GB_SIDE_CRADLE, NULL},
        {"process", "privilege", GB_SIDE_BOX, false, "2.6",
         "signal masks, umask, priority and the controlling terminal would leak in", "", 0, gb_process_reset},
        {"no-new-privs", "privilege", GB_SIDE_BOX, false, "3.5", "a setuid program would gain privilege", "",
         0, gb_caps_no_new_privs},
        {"ns-net", "network", GB_SIDE_BOX, false, "2.6.29", "the host's network would be in reach",
         USERNS_REMEDY, 0, gb_netns_join, GB_SIDE_ZYGOTE, gb_net_enter},
        {"capabilities", "privilege", GB_SIDE_BOX, false, "2.6.25",
         "the program would be root inside its namespaces", "", 0, gb_caps_drop},
        {"die-with-parent", "process life", GB_SIDE_BOX, false, "2.6", "the box would outlive its supervisor",
         "", 0, gb_process_die_with_parent},
        {"landlock", "landlock", GB_SIDE_BOX, true, "5.13",
         "the second wall on files, tcp, abstract sockets and signals would be missing",
         "boot a kernel from 5.13 on with landlock in its lsm= list", 0, gb_landlock_apply},
        {"descriptors", "privilege", GB_SIDE_BOX, false, "2.6", "open files of the supervisor would leak in",
         "", 0, gb_process_descriptors},
        {"rlimits", "resources", GB_SIDE_BOX, false, "2.6.36",
         "the second wall on processes, files, cpu and locked memory would be missing",
         "raise the hard limit (ulimit -H) or lower the box's limit", 0, gb_rlimit_apply},
        {"seccomp", "syscalls", GB_SIDE_BOX, false, "3.17", "the whole kernel would be in reach", "", 0,
         gb_seccomp_apply, GB_SIDE_SAME, gb_seccomp_complete},
};
const unsigned gb_step_count = ARRAY_LEN(gb_steps);
_Static_assert(ARRAY_LEN(gb_steps) <= 64, "the receipt has one bit for each step");

/* Only in test builds: make a step fail, to see that the run is refused. (GB_WALL leaves it out, to see that
 * a test notices.) */
static bool must_fail(const char *step)
{
#ifdef GB_TESTING
    const char *list = getenv("GLOVEBOX_TEST_FAIL");
    return list && gb_text_in_list(list, step);
#else
    (void)step;
    return false;
#endif
}

const char *gb_step_name(unsigned index)
{
    return index < gb_step_count ? gb_steps[index].name : "?";
}

const struct gb_step *gb_steps_find(const char *name)
{
    for (unsigned i = 0; i < gb_step_count; i++)
        if (!strcmp(gb_steps[i].name, name))
            return &gb_steps[i];
    return NULL;
}

bool gb_steps_applied(uint64_t mask, const char *name)
{
    const struct gb_step *step = gb_steps_find(name);
    return step && (mask >> (step - gb_steps) & 1);
}

/* Is it that this host cannot give the layer, rather than that it is short of something right now? Only the
 * first may be accepted. */
static bool is_lasting(int r)
{
    static const int lasting[] = {ENOSYS, EOPNOTSUPP, EPERM, EACCES, ENOENT, EROFS, EINVAL, EBUSY, EIO};
    for (size_t i = 0; i < ARRAY_LEN(lasting); i++)
        if (r == -lasting[i])
            return true;
    return false;
}

/* Where a step is done for this box. */
static enum gb_side side_of(const struct gb_box *box, const struct gb_step *step)
{
    const enum gb_side side = box->warm && step->warm != GB_SIDE_SAME ? step->warm : step->side;
    return side != GB_SIDE_CGROUP ? side : box->born_inside ? GB_SIDE_PREPARE : GB_SIDE_PARENT;
}

static int run_one(struct gb_box *box, const struct gb_step *step, struct gb_err *err)
{
    if (!GB_WALL(step->name))
        return GB_STEP_NOT_APPLICABLE;
    int (*apply)(struct gb_box *, struct gb_err *) =
            box->warm && step->apply_warm ? step->apply_warm : step->apply;
    int r = must_fail(step->name) ? gb_err_set(err, GB_ERR_LAYER, EIO, "injected failure") : apply(box, err);
    if (r >= 0)
        return r;
    if (err->code == GB_ERR_LAYER && !is_lasting(r))
        err->code = GB_ERR_BUSY;
    if (err->code == GB_ERR_LAYER && step->may_degrade && box->spec->degraded &&
        gb_text_in_list(box->spec->degraded, step->name)) {
        box->receipt.degraded |= (uint64_t)1 << (step - gb_steps);
        return GB_STEP_NOT_APPLICABLE;
    }
    gb_err_wrap(err, "%s", step->name);
    if (err->code == GB_ERR_LAYER && *step->remedy && !err->hinted)
        gb_err_hint(err, "%s", step->remedy);
    snprintf(err->step, sizeof(err->step), "%s", step->name);
    return r;
}

int gb_steps_run(struct gb_box *box, enum gb_side side, struct gb_err *err)
{
    for (unsigned i = 0; i < gb_step_count; i++) {
        if (side_of(box, &gb_steps[i]) != side || gb_steps[i].clone_flag)
            continue;
        int r = run_one(box, &gb_steps[i], err);
        if (r < 0)
            return r;
        if (r == 0)
            box->receipt.applied |= (uint64_t)1 << i;
    }
    return 0;
}

uint64_t gb_steps_clone_flag(const struct gb_step *step)
{
    if (!GB_WALL(step->name))
        return 0;
    /* A flag that the kernel does not take makes the clone fail: that is how an injected failure looks here.
     */
    return must_fail(step->name) ? CLONE_DETACHED : step->clone_flag;
}

uint64_t gb_steps_clone_flags(struct gb_box *box, enum gb_side side)
{
    uint64_t flags = 0;
    for (unsigned i = 0; i < gb_step_count; i++) {
        if (!gb_steps[i].clone_flag || side_of(box, &gb_steps[i]) != side || !GB_WALL(gb_steps[i].name))
            continue;
        flags |= gb_steps_clone_flag(&gb_steps[i]);
        box->receipt.applied |= (uint64_t)1 << i;
    }
    return flags;
}

bool gb_steps_stand(const char *name)
{
    (void)name;
    return GB_WALL(name);
}

uint64_t gb_steps_mask(enum gb_side side, bool warm)
{
    const struct gb_box box = {.warm = warm};
    uint64_t mask = 0;
    for (unsigned i = 0; i < gb_step_count; i++)
        if (side_of(&box, &gb_steps[i]) == side)
            mask |= (uint64_t)1 << i;
    return mask;
}

int gb_steps_check_degraded(const char *list, struct gb_err *err)
{
    char allowed[128] = "", word[32];
    for (unsigned i = 0; i < gb_step_count; i++)
        if (gb_steps[i].may_degrade)
            snprintf(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed), "%s%s",
                     *allowed ? "," : "", gb_steps[i].name);
    for (const char *p = list; *p;) {
        const char *end = strchrnul(p, ',');
        snprintf(word, sizeof(word), "%.*s", (int)(end - p), p);
        if (!gb_text_in_list(allowed, word))
            return gb_err_set(err, GB_ERR_USAGE, 0, "'%s' cannot be left out; only these can: %s", word,
                              allowed);
        p = *end ? end + 1 : end;
    }
    return 0;
}
