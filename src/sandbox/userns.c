/* Who the box is: which host uid it runs under, the id maps, and the wall against further user namespaces. */
#include "sandbox/steps.h"

#include "sandbox/channel.h"
#include "sandbox/zygote.h"
#include "base/auto.h"
#include "base/fd.h"
#include "base/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Above every range that distributions and systemd hand out, below 2^31. */
#define UID_FIRST  2000000000U
#define UID_COUNT  65536U
#define OOM_SCORE  500
#define LEASE_DIR  "/run/glovebox"
#define LEASE_FILE LEASE_DIR "/uids"

/* Can our own user namespace give out all of the range? (Not if we are root of a small user namespace.) */
static bool range_is_mapped(const char *map_file)
{
    char text[4096];
    if (gb_fd_get(AT_FDCWD, map_file, text, sizeof(text)) < 0)
        return false;
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned inside, outside, count;
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3 && inside <= UID_FIRST &&
            count > UID_FIRST - inside && count - (UID_FIRST - inside) >= UID_COUNT)
            return true;
    }
    return false;
}

/* The first user namespace has all ids. Its inode has had this number since 3.8 (now USER_NS_INIT_INO). */
static bool is_first(void)
{
    struct stat st;
    return !stat("/proc/self/ns/user", &st) && st.st_ino == 0xEFFFFFFDU;
}

static bool has_range(void)
{
    static int known = -1; /* of a user namespace, this cannot change */
    if (known < 0)
        known = is_first() ||
                (range_is_mapped("/proc/self/uid_map") && range_is_mapped("/proc/self/gid_map"));
    return geteuid() == 0 && known;
}

/* Holds byte N of a file locked for as long as uid UID_FIRST + N is in use; the kernel frees it when we die.
 */
static int lease_uid(int *ret_fd, uid_t *ret_uid)
{
    if (mkdir(LEASE_DIR, 0755) && errno != EEXIST)
        return -errno;
    AUTO_FD fd = open(LEASE_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    uint32_t start = 0;
    if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
        start = (uint32_t)getpid();
    for (uint32_t i = 0; i < UID_COUNT; i++) {
        uint32_t n = (start + i) % UID_COUNT;
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = n, .l_len = 1};
        if (!fcntl(fd, F_OFD_SETLK, &lock)) {
            *ret_fd = TAKE_FD(fd);
            *ret_uid = UID_FIRST + n;
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES)
            return -errno;
    }
    return -EAGAIN;
}

/* uid. Should: give the box a host uid that nobody else has. Must not: fall back to root when we are root. An
 * ordinary user, and the root of a user namespace that has no such range, can only lend their own uid; the
 * receipt tells. */
int gb_userns_lease(struct gb_box *box, struct gb_err *err)
{
    if (box->lease_fd >= 0) /* of the box before, of which nothing is left */
        return 0;
    if (!has_range())
        return GB_STEP_NOT_APPLICABLE;
    int r = lease_uid(&box->lease_fd, &box->host_uid);
    if (r)
        return gb_err_set(err, GB_ERR_LAYER, -r, "lease a uid in %s", LEASE_FILE);
    box->host_gid = (gid_t)box->host_uid;
    box->receipt.host_uid = box->host_uid;
    return 0;
}

static int put_map(int dir, const char *file, const char *text, struct gb_err *err)
{
    int r = gb_fd_put(dir, file, text);
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "write %s", file) : 0;
}

/* When the host itself runs short of memory, a box dies before its caller. It cannot lower this again: its
 * /proc is read-only. */
static int raise_oom_score(int dir, struct gb_err *err)
{
    char text[16] = "";
    int64_t score = 0;
    AUTO_FD fd = openat(dir, "oom_score_adj", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && !gb_fd_to_int(text, &score) && score >= OOM_SCORE)
        return 0;
    const int len = snprintf(text, sizeof(text), "%d", OOM_SCORE);
    return fd < 0 || pwrite(fd, text, (size_t)len, 0) != len
                   ? gb_err_set(err, GB_ERR_LAYER, errno, "write oom_score_adj")
                   : 0;
}

static int let_go(struct gb_box *box, struct gb_err *err)
{
    const char go = GB_GO_MAPPED;
    if (send(box->channel, &go, 1, MSG_NOSIGNAL) != 1)
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "tell the box that it is mapped");
    return 0;
}

/* Writes the maps of the new process and lets it go on. Must not: trust that /proc is procfs
 * (CVE-2025-52881): the type is checked on the descriptor that is written through. */
static int map_process(struct gb_box *box, const char *uid_map, const char *gid_map, struct gb_err *err)
{
    char path[16];
    struct statfs fs;
    snprintf(path, sizeof(path), "%d", box->init_pid);
    AUTO_FD dir = openat(box->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstatfs(dir, &fs) || fs.f_type != PROC_SUPER_MAGIC) {
        gb_err_set(err, GB_ERR_LAYER, EIO, "/proc is not a proc file system");
        gb_err_hint(err, "mount one there");
        return -EIO;
    }
    int r = GB_WALL("setgroups") ? put_map(dir, "setgroups", "deny", err) : 0;
    if (!r)
        r = put_map(dir, "uid_map", uid_map, err);
    if (!r)
        r = put_map(dir, "gid_map", gid_map, err);
    if (!r && GB_WALL("oom-score"))
        r = raise_oom_score(dir, err);
    return r ? r : let_go(box, err);
}

/* idmap. Should: map exactly one uid and one gid. */
int gb_userns_map(struct gb_box *box, struct gb_err *err)
{
    char uid_map[48], gid_map[48];
    snprintf(uid_map, sizeof(uid_map), "%d %u 1\n", GB_BOX_UID, box->host_uid);
    if (!GB_WALL("idmap-one"))
        snprintf(uid_map, sizeof(uid_map), "%d %u 1\n0 %u 1\n", GB_BOX_UID, box->host_uid, box->host_uid + 1);
    snprintf(gid_map, sizeof(gid_map), "%d %u 1\n", GB_BOX_UID, box->host_gid);
    return map_process(box, uid_map, gid_map, err);
}

/* The map of a zygote: itself, and the uids that its boxes lease. */
int gb_userns_map_zygote(struct gb_box *box, struct gb_err *err)
{
    char map[64];
    if (!gb_steps_stand("ns-user")) /* there is nothing to map */
        return let_go(box, err);
    int n = snprintf(map, sizeof(map), "0 %u 1\n", box->host_uid);
    if (box->host_uid == GB_ZYGOTE_UID)
        snprintf(map + n, sizeof(map) - (size_t)n, "1 %u %u\n", UID_FIRST, UID_COUNT);
    return map_process(box, map, map, err);
}

/* Does the supervisor have a uid range? Then a zygote gets a uid beside it. */
void gb_userns_take_zygote(struct gb_box *box)
{
    if (has_range())
        box->host_uid = box->host_gid = GB_ZYGOTE_UID;
}

/* Which uid, as the zygote sees it, the box runs under on the host. */
uid_t gb_userns_in_zygote(const struct gb_box *box)
{
    return box->lease_fd >= 0 ? box->host_uid - UID_FIRST + 1 : 0;
}

#ifdef GB_TESTING
/* The kernel lets nobody map itself to more than one uid, or keep the right to set groups: positive controls
 * have the zygote do it. */
bool gb_userns_maps_itself(void)
{
    return GB_WALL("idmap-one") && GB_WALL("setgroups");
}

int gb_userns_map_other(const struct gb_box *box, long pid)
{
    char map[64], path[16];
    snprintf(path, sizeof(path), "%ld", pid);
    AUTO_FD dir = openat(box->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int n = snprintf(map, sizeof(map), "%d %u 1\n", GB_BOX_UID, box->host_uid), r;
    while ((r = gb_fd_put(dir, "gid_map", map)) && !kill((pid_t)pid, 0))
        usleep(1000); /* it does not let itself be looked at yet */
    if (!GB_WALL("idmap-one"))
        snprintf(map + n, sizeof(map) - (size_t)n, "0 %u 1\n", box->host_uid + 1);
    return r ? r : gb_fd_put(dir, "uid_map", map);
}
#endif

/* idmap, where a zygote bears the box: as the one uid that it was born under, its cradle may map itself to
 * that. The zygote's namespace has no right to set groups, so this one has none from the start; else the
 * kernel would refuse the second map. */
int gb_userns_map_self(struct gb_box *box, struct gb_err *err)
{
    char map[48];
    AUTO_FD dir = openat(box->proc_fd, "self", O_PATH | O_DIRECTORY | O_CLOEXEC);
#ifdef GB_TESTING
    while (!gb_userns_maps_itself() && geteuid() != GB_BOX_UID) /* the zygote is about to do it */
        usleep(1000);
    if (!gb_userns_maps_itself())
        return 0;
#endif
    snprintf(map, sizeof(map), "%d %u 1\n", GB_BOX_UID, box->host_uid);
    int r = dir < 0 ? gb_err_set(err, GB_ERR_LAYER, errno, "open /proc/self") : 0;
    if (!r)
        r = put_map(dir, "uid_map", map, err);
    if (!r)
        r = put_map(dir, "gid_map", map, err);
    return r;
}

/* identity. Should: become the one mapped user. */
int gb_userns_identity(struct gb_box *box, struct gb_err *err)
{
    if (!box->warm && gb_channel_await(box, GB_GO_MAPPED))
        return gb_err_set(err, GB_ERR_INTERNAL, EPIPE, "wait for the id maps");
    /* Raw calls: the C library's would try to tell the supervisor's other threads, of which this process has
     * only the memory. */
    if (syscall(SYS_setresgid, GB_BOX_UID, GB_BOX_UID, GB_BOX_UID) ||
        syscall(SYS_setresuid, GB_BOX_UID, GB_BOX_UID, GB_BOX_UID))
        return gb_err_set(err, GB_ERR_LAYER, errno, "become uid %d", GB_BOX_UID);
    return 0;
}

/* no-nested-userns. Should: set this namespace's own count of further user namespaces to none. The system
 * call filter refuses them too; this holds if the filter should ever have a hole. */
int gb_userns_forbid_nested(struct gb_box *box, struct gb_err *err)
{
    int r = gb_fd_put(box->proc_fd, "sys/user/max_user_namespaces", "0");
    return r ? gb_err_set(err, GB_ERR_LAYER, -r, "write /proc/sys/user/max_user_namespaces") : 0;
}
