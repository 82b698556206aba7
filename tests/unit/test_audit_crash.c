/* The audit when things go wrong around it: killed writers, full disks, input and output that fails, no
 * memory. What was acknowledged must be there, and the chain sound, whatever happens. */
#include "audit_unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

/* --- kill -9 --- */

/* Starts as the store does, then writes calls until it is killed: a transaction for the intents, one for the
 * outcomes. Tells the last number of each after the commit. */
static void write_for_ever(int ack_fd, unsigned round)
{
    struct gb_audit *a = NULL;
    struct gb_err err;
    if (gb_audit_open(".", true, false, &a, &err))
        _exit(9);
    for (unsigned i = 0;; i++) {
        const uint32_t kind = i % 2 ? GB_RECORD_OUTCOME : GB_RECORD_INTENT;
        int64_t seq = 0, lost;
        if (gb_audit_begin(a, &err) || (!i && gb_audit_close_open(a, &lost, &err)))
            _exit(8);
        for (unsigned k = 0; k < 5; k++) {
            char id[GB_ID_BYTES];
            snprintf(id, sizeof(id), "r%u-%u-%u", round, i / 2, k);
            struct gb_audit_record r = {
                    .kind = kind, .id = id, .principal = "p", .body = "{}", .body_bytes = 2};
            if (gb_audit_append(a, &r, &seq, &err))
                _exit(7);
        }
        if (gb_audit_commit(a, &err))
            _exit(6);
        if (write(ack_fd, &seq, sizeof(seq)) != sizeof(seq))
            _exit(5);
    }
}

static void killed_writers_lose_nothing(void **state)
{
    (void)state;
    int64_t acknowledged = 0;
    unsigned seed = (unsigned)getpid();
    for (unsigned round = 0; round < 100; round++) {
        int ack[2], status;
        assert_int_equal(pipe2(ack, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_for_ever(ack[1], round);
        close(ack[1]);
        int64_t seq;
        /* A moment after one of its first commits, or at any time before. */
        for (int wanted = rand_r(&seed) % 12; wanted && read(ack[0], &seq, sizeof(seq)) == sizeof(seq);
             wanted--)
            acknowledged = seq;
        usleep((useconds_t)(rand_r(&seed) % 3000));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status))
            fail_msg("round %u: the writer ended by itself (%d)", round, WEXITSTATUS(status));
        while (read(ack[0], &seq, sizeof(seq)) == sizeof(seq))
            acknowledged = seq;
        close(ack[0]);
        /* Half of the time the next writer finds the log as it was left; a reader would have tidied it up. */
        if (round % 2 && access(GB_AUDIT_FILE, F_OK) == 0 && acknowledged) {
            sound();
            assert_true(ask("SELECT max(seq) FROM records") >= acknowledged);
        }
    }
    assert_true(acknowledged > 100);
    struct gb_audit *a = open_audit(true);
    struct gb_err err = {0};
    int64_t lost;
    begin(a);
    assert_int_equal(gb_audit_close_open(a, &lost, &err), 0);
    commit(a);
    gb_audit_close(a);
    assert_true(sound() >= acknowledged);
    assert_int_equal(ask("SELECT count(*) FROM records i WHERE kind = 2 AND (SELECT count(*) FROM records o "
                         "WHERE o.id = i.id AND o.kind IN (4, 5)) <> 1"),
                     0);
    assert_true(ask("SELECT count(*) FROM records WHERE kind = 5") > 0);
}

/* --- a full disk --- */

static int64_t fill(struct gb_audit *a, int64_t *acknowledged)
{
    static char body[4000];
    memset(body, 'x', sizeof(body));
    for (;;) {
        struct gb_err err = {0};
        struct gb_audit_record r = {
                .kind = GB_RECORD_START, .id = "", .principal = "", .body = body, .body_bytes = sizeof(body)};
        int64_t seq;
        int rc = gb_audit_begin(a, &err);
        if (!rc)
            rc = gb_audit_append(a, &r, &seq, &err);
        if (!rc)
            rc = gb_audit_commit(a, &err);
        if (rc) {
            assert_non_null(strstr(err.text, "full"));
            return rc;
        }
        *acknowledged = seq;
        assert_true(seq < 10000);
    }
}

static void a_full_disk_passes(void **state)
{
    (void)state;
    static char ballast[300 * 1024];
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        skip();
    assert_int_equal(mkdir("small", 0700), 0);
    assert_int_equal(mount("none", "small", "tmpfs", 0, "size=2m"), 0);
    assert_int_equal(chdir("small"), 0);
    int64_t acknowledged = 0;
    struct gb_audit *a = open_audit(true);
    for (int round = 0; round < 3; round++) {
        char name[16];
        snprintf(name, sizeof(name), "ballast%d", round);
        unit_write(name, ballast, sizeof(ballast));
    }
    for (int round = 0; round < 3; round++) {
        char name[16];
        for (int again = 0; again < 3; again++)
            assert_int_equal(fill(a, &acknowledged), -ENOSPC);
        assert_int_equal(sound(), acknowledged);
        /* A service that is started now cannot write either, but knows that it may pass. */
        struct gb_audit *other = NULL;
        struct gb_err err = {0};
        assert_int_not_equal(gb_audit_open(".", true, false, &other, &err), -EBADMSG);
        gb_audit_close(other);
        snprintf(name, sizeof(name), "ballast%d", round);
        assert_int_equal(unlink(name), 0);
        begin(a);
        acknowledged = append_at(a, GB_RECORD_START, "", 0);
        commit(a);
        assert_int_equal(sound(), acknowledged);
    }
    fill(a, &acknowledged);
    gb_audit_close(a); /* with a log that does not fit into the file any more */
    struct gb_err err = {0};
    int64_t count = 0;
    uint8_t head[GB_HASH_BYTES];
    if (gb_audit_open(".", false, false, &a, &err) == 0) {
        assert_int_equal(gb_audit_verify(a, NULL, &count, head, &err), 0);
        assert_int_equal(count, acknowledged);
        gb_audit_close(a);
    } else
        assert_int_not_equal(err.errnum, EBADMSG);
    assert_int_equal(mount("none", ".", NULL, MS_REMOUNT, "size=8m"), 0);
    assert_int_equal(sound(), acknowledged);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(umount2("small", MNT_DETACH), 0);
}

/* --- system calls and memory that fail, each once --- */

static long countdown; /* the call that fails; 0: none */
static int failure;    /* its errno */

static bool fails_now(void)
{
    if (!countdown || --countdown)
        return false;
    errno = failure;
    return true;
}

static ssize_t fail_pwrite(int fd, const void *data, size_t len, off_t at)
{
    return fails_now() ? -1 : pwrite(fd, data, len, at);
}

static ssize_t fail_write(int fd, const void *data, size_t len)
{
    return fails_now() ? -1 : write(fd, data, len);
}

static ssize_t fail_pread(int fd, void *data, size_t len, off_t at)
{
    return fails_now() ? -1 : pread(fd, data, len, at);
}

static ssize_t fail_read(int fd, void *data, size_t len)
{
    return fails_now() ? -1 : read(fd, data, len);
}

static int fail_ftruncate(int fd, off_t len)
{
    return fails_now() ? -1 : ftruncate(fd, len);
}

static int fail_open(const char *path, int flags, int mode)
{
    return fails_now() ? -1 : open(path, flags | O_CLOEXEC, mode);
}

static const struct {
    const char *name;
    sqlite3_syscall_ptr call;
} calls[] = {
        {"pwrite", (sqlite3_syscall_ptr)fail_pwrite},       {"pwrite64", (sqlite3_syscall_ptr)fail_pwrite},
        {"write", (sqlite3_syscall_ptr)fail_write},         {"pread", (sqlite3_syscall_ptr)fail_pread},
        {"pread64", (sqlite3_syscall_ptr)fail_pread},       {"read", (sqlite3_syscall_ptr)fail_read},
        {"ftruncate", (sqlite3_syscall_ptr)fail_ftruncate}, {"open", (sqlite3_syscall_ptr)fail_open},
};

static sqlite3_mem_methods real_memory;

static void *fail_malloc(int size)
{
    return failure == ENOMEM && fails_now() ? NULL : real_memory.xMalloc(size);
}

static void *fail_realloc(void *old, int size)
{
    return failure == ENOMEM && fails_now() ? NULL : real_memory.xRealloc(old, size);
}

/* What a store does in its life, from opening to retention. Returns whether all of it went well. */
static bool live(int64_t *acknowledged)
{
    struct gb_audit *a = NULL;
    struct gb_err err = {0};
    const struct gb_msg_retention keep = {.keep_bytes = 40000};
    int64_t removed, lost, seq = 0;
    int r = gb_audit_open(".", true, false, &a, &err);
    for (int i = 0; i < 8 && !r; i++) {
        char id[GB_ID_BYTES];
        snprintf(id, sizeof(id), "call%d", i);
        r = gb_audit_begin(a, &err);
        if (!r && !i)
            r = gb_audit_close_open(a, &lost, &err);
        for (int k = 0; k < 3 && !r; k++) {
            struct gb_audit_record record = {
                    .kind = GB_RECORD_INTENT, .id = id, .principal = "p", .body = "{}", .body_bytes = 2};
            r = gb_audit_append(a, &record, &seq, &err);
        }
        if (!r)
            r = gb_audit_commit(a, &err);
        if (!r)
            *acknowledged = seq;
    }
    if (!r)
        r = gb_audit_retain(a, &keep, &removed, &err);
    if (r && !*err.text)
        fail_msg("a failure without a text");
    /* SQLite itself takes an EIO from reading for a damaged medium. */
    if (r == -EBADMSG && failure != EIO)
        fail_msg("a failure that passes was taken for damage: %s", err.text);
    gb_audit_close(a);
    return !r;
}

/* Fails the first call, then the second, and so on, later in larger strides, until a life goes by without a
 * failure. */
static void fail_each(int errnum, long most)
{
    int64_t acknowledged = 0;
    failure = errnum;
    for (long n = 1;; n += 1 + n / 50) {
        if (n > most)
            fail_msg("still failing at call %ld", n);
        countdown = n;
        const bool well = live(&acknowledged);
        const bool fired = countdown == 0;
        countdown = 0;
        if (!fired) {
            assert_true(well);
            break;
        }
        if (!acknowledged)
            continue; /* there may be no database yet */
        sound();
        if (ask("SELECT seq FROM head") < acknowledged)
            fail_msg("call %ld failed and a record was lost", n);
    }
    failure = 0;
}

static void no_failed_call_hurts(void **state)
{
    (void)state;
    fail_each(EIO, 20000);
    fail_each(ENOSPC, 20000);
}

static void no_lack_of_memory_hurts(void **state)
{
    (void)state;
    fail_each(ENOMEM, 100000);
}

/* In memory: a disk would be waited for thousands of times, and none of this is about losing power. */
static int enter_memory(void **state)
{
    char *path = strdup("/dev/shm/glovebox-unit-XXXXXX");
    *state = path;
    return path && mkdtemp(path) && !chdir(path) ? 0 : -1;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter_memory, unit_leave_dir)

int main(void)
{
    sqlite3_mem_methods memory;
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory);
    memory = real_memory;
    memory.xMalloc = fail_malloc;
    memory.xRealloc = fail_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &memory);
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    for (size_t i = 0; i < LEN(calls); i++)
        if (vfs->xGetSystemCall(vfs, calls[i].name))
            vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call);
    const struct CMUnitTest tests[] = {
            TEST(killed_writers_lose_nothing),
            TEST(a_full_disk_passes),
            TEST(no_failed_call_hurts),
            TEST(no_lack_of_memory_hurts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
