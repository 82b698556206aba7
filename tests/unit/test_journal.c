/* The quick way into the audit: what is kept in the journal counts from then on, wherever the writer ends,
 * and what comes of it in the tables is what would have come of it without. */
#include "audit_unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static const char body[] = "{\"tool\":\"execute_code\",\"status\":\"success\"}";

static int64_t stage_at(struct gb_audit *a, uint32_t kind, const char *id, int64_t time_us)
{
    struct gb_err err = {0};
    int64_t seq = 0;
    const struct gb_audit_record r = {.time_us = time_us,
                                      .kind = kind,
                                      .id = id,
                                      .principal = kind == GB_RECORD_LAUNCH ? "" : "alice",
                                      .body = body,
                                      .body_bytes = sizeof(body) - 1};
    const struct gb_audit_usage used = {.principal = "alice",
                                        .tool = "execute_code",
                                        .calls = kind == GB_RECORD_INTENT,
                                        .cpu_us = kind == GB_RECORD_OUTCOME ? 1500 : 0};
    if (gb_audit_stage(a, &r, kind == GB_RECORD_LAUNCH ? NULL : &used, &seq, &err))
        fail_msg("stage: %s", err.text);
    return seq;
}

static void keep(struct gb_audit *a)
{
    struct gb_err err = {0};
    if (gb_audit_keep(a, &err))
        fail_msg("keep: %s", err.text);
}

static void settle(struct gb_audit *a, size_t most)
{
    struct gb_err err = {0};
    if (gb_audit_settle(a, most, &err))
        fail_msg("settle: %s", err.text);
}

/* Three calls of three records, as append_calls makes them. */
static void keep_calls(struct gb_audit *a, int calls, int64_t time_us)
{
    for (int i = 0; i < calls; i++) {
        char id[GB_ID_BYTES];
        snprintf(id, sizeof(id), "c%d", i);
        stage_at(a, GB_RECORD_INTENT, id, time_us);
        stage_at(a, GB_RECORD_LAUNCH, id, time_us);
        stage_at(a, GB_RECORD_OUTCOME, id, time_us);
        keep(a);
    }
}

static size_t read_journal(char *data, size_t size)
{
    int fd = open(GB_AUDIT_JOURNAL, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, data, size);
    close(fd);
    assert_true(n >= 0);
    return (size_t)n;
}

/* A writer that is killed: nothing is settled, nothing tidied up. */
static void in_child(void (*work)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        work();
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

/* --- reading --- */

static int collect(void *context, const struct gb_audit_record *r)
{
    char *text = context;
    const size_t used = strlen(text);
    snprintf(text + used, 200 - used, "%d%s ", (int)r->seq, gb_record_kind_name(r->kind));
    return 0;
}

static void check_finds(struct gb_audit *a, size_t settled)
{
    static const struct {
        struct gb_audit_filter filter;
        const char *expected;
    } rows[] = {
            {{.id = "c1"}, "4intent 5launch 6outcome "},
            {{.id = "c1", .most = 2}, "4intent 5launch "},
            {{.id = "c1", .newest = true, .most = 2}, "6outcome 5launch "},
            {{.id = "c1", .principal = "alice"}, "4intent 5launch 6outcome "},
            {{.id = "c1", .principal = "alice", .after = 4}, "5launch 6outcome "},
            {{.id = "c1", .principal = "bob"}, ""},
            {{.id = "none"}, ""},
            {{.principal = "alice", .before = 5}, "1intent 3outcome 4intent "},
            {{.principal = "bob"}, ""},
            {{.ends = true, .newest = true}, "9outcome 6outcome 3outcome "},
            {{.ends = true, .newest = true, .most = 2}, "9outcome 6outcome "},
            {{.ends = true, .newest = true, .before = 9, .principal = "alice"}, "6outcome 3outcome "},
            {{.after = 7}, "8launch 9outcome "},
            {{.after = 3, .before = 6}, "4intent 5launch "},
            {{.since_us = 1000000, .most = 1}, "1intent "},
            {{.since_us = 1000001}, ""},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[200] = "";
        struct gb_err err = {0};
        assert_int_equal(gb_audit_each(a, &rows[i].filter, collect, text, &err), 0);
        if (strcmp(text, rows[i].expected) != 0)
            fail_msg("%zu settled, filter %zu: '%s', not '%s'", settled, i, text, rows[i].expected);
    }
}

/* Whatever part of them is in the tables, the writer and every reader see the same records. */
static void kept_is_found(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true), *reader;
    struct stat st;
    keep_calls(a, 3, 1000000);
    for (size_t settled = 0; settled <= 9; settled++) {
        check_finds(a, settled);
        reader = open_audit(false);
        check_finds(reader, settled);
        gb_audit_close(reader);
        assert_int_equal(sound(), 9);
        assert_int_equal(ask("SELECT count(*) FROM records"), settled);
        settle(a, 1);
    }
    assert_int_equal(gb_audit_unsettled(a), 0);
    reader = open_audit(false); /* one that was there before */
    assert_int_equal(stage_at(a, GB_RECORD_INTENT, "c9", 0), 10);
    assert_int_equal(sound(), 9); /* staged is not kept */
    keep(a);
    char text[200] = "";
    const struct gb_audit_filter filter = {.id = "c9"};
    assert_int_equal(gb_audit_each(reader, &filter, collect, text, NULL), 0);
    assert_string_equal(text, "10intent ");
    gb_audit_close(reader);
    gb_audit_close(a); /* settles */
    assert_int_equal(stat(GB_AUDIT_JOURNAL, &st), -1);
    assert_int_equal(ask("SELECT count(*) FROM records"), 10);
    assert_int_equal(sound(), 10);
}

static void a_noted_head_may_be_in_the_journal(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true), *reader;
    struct gb_err err = {0};
    uint8_t noted[GB_HASH_BYTES], head[GB_HASH_BYTES];
    int64_t count;
    keep_calls(a, 1, 0);
    reader = open_audit(false);
    assert_int_equal(gb_audit_verify(reader, NULL, &count, noted, &err), 0);
    keep_calls(a, 1, 0);
    assert_int_equal(gb_audit_verify(reader, noted, &count, head, &err), 0);
    assert_int_equal(count, 6);
    noted[0] ^= 1;
    assert_int_equal(gb_audit_verify(reader, noted, &count, head, &err), -EBADMSG);
    gb_audit_close(reader);
    gb_audit_close(a);
}

/* --- the tables --- */

static unsigned seed;

/* Calls that overlap, some without an end, some that end before they begin, ids that come back. */
static void make_records(struct gb_audit *a, bool quick, unsigned records)
{
    struct gb_err err = {0};
    for (unsigned i = 0; i < records; i++) {
        static const uint32_t kinds[] = {GB_RECORD_INTENT, GB_RECORD_LAUNCH, GB_RECORD_OUTCOME,
                                         GB_RECORD_APPROVAL};
        char id[GB_ID_BYTES], tool[GB_TOOL_NAME], principal[GB_PRINCIPAL];
        snprintf(id, sizeof(id), "i%d", rand_r(&seed) % 30);
        snprintf(principal, sizeof(principal), "p%d", rand_r(&seed) % 3);
        snprintf(tool, sizeof(tool), "t%d", rand_r(&seed) % 40);
        const struct gb_audit_record r = {.time_us = 1000000 + (int64_t)i,
                                          .kind = kinds[rand_r(&seed) % LEN(kinds)],
                                          .id = id,
                                          .principal = principal,
                                          .body = body,
                                          .body_bytes = sizeof(body) - 1};
        const struct gb_audit_usage used = {
                .principal = principal, .tool = tool, .calls = i % 2, .cpu_us = i % 1000};
        int rc;
        if (quick) {
            rc = gb_audit_stage(a, &r, i % 3 ? &used : NULL, NULL, &err);
            if (!rc && i % 7 == 0)
                rc = gb_audit_keep(a, &err);
            if (!rc && i % 7 == 0 && rand_r(&seed) % 2 == 0)
                rc = gb_audit_settle(a, (size_t)i % 50 + 1, &err);
        } else {
            rc = gb_audit_begin(a, &err);
            if (!rc)
                rc = gb_audit_append(a, &r, NULL, &err);
            if (!rc && i % 3)
                rc = gb_audit_charge(a, &used, &err);
            if (!rc)
                rc = gb_audit_commit(a, &err);
            if (i % 7 == 0)
                rand_r(&seed); /* the same dice */
        }
        if (rc)
            fail_msg("record %u: %s", i, err.text);
    }
    if (quick)
        keep(a);
}

static void the_tables_are_the_same(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 5; round++) {
        static const char *const dirs[] = {"direct", "quick"};
        for (size_t i = 0; i < LEN(dirs); i++) {
            assert_int_equal(mkdir(dirs[i], 0700), 0);
            assert_int_equal(chdir(dirs[i]), 0);
            struct gb_audit *a = open_audit(true);
            seed = round;
            make_records(a, i == 1, 1500);
            gb_audit_close(a);
            assert_int_equal(sound(), 1500);
            assert_int_equal(chdir(".."), 0);
        }
        sqlite3 *db;
        char *why = NULL;
        assert_int_equal(sqlite3_open("direct/audit.db", &db), SQLITE_OK);
        sqlite3_exec(db, "ATTACH 'quick/audit.db' AS q", NULL, NULL, &why);
        assert_null(why);
        static const char *const same[] = {
                "SELECT count(*) FROM (SELECT * FROM records EXCEPT SELECT * FROM q.records)",
                "SELECT count(*) FROM (SELECT * FROM head EXCEPT SELECT * FROM q.head)",
                "SELECT count(*) FROM (SELECT * FROM usage EXCEPT SELECT * FROM q.usage)",
                "SELECT count(*) FROM (SELECT * FROM q.usage EXCEPT SELECT * FROM usage)",
                "SELECT count(*) FROM (SELECT * FROM pending EXCEPT SELECT * FROM q.pending)",
                "SELECT count(*) FROM (SELECT * FROM q.pending EXCEPT SELECT * FROM pending)",
        };
        for (size_t i = 0; i < LEN(same); i++) {
            sqlite3_stmt *stmt;
            assert_int_equal(sqlite3_prepare_v2(db, same[i], -1, &stmt, NULL), SQLITE_OK);
            assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
            if (sqlite3_column_int(stmt, 0))
                fail_msg("round %u, '%s': %d differ", round, same[i], sqlite3_column_int(stmt, 0));
            sqlite3_finalize(stmt);
        }
        sqlite3_close(db);
        for (size_t i = 0; i < LEN(dirs); i++) {
            char path[32];
            snprintf(path, sizeof(path), "%s/audit.db", dirs[i]);
            assert_int_equal(unlink(path), 0);
            assert_int_equal(rmdir(dirs[i]), 0);
        }
    }
}

static int add_row(void *context, const struct gb_audit_usage *u)
{
    char *text = context;
    const size_t used = strlen(text);
    snprintf(text + used, 400 - used, "%s/%s:%d:%d ", u->principal, u->tool, (int)u->calls, (int)u->cpu_us);
    return 0;
}

/* The day's usage, a few rows at a time, as the store tells it. */
static void tell_usage(struct gb_audit *a, int64_t day, int64_t most, char text[400])
{
    struct gb_audit_usage behind = {.day = day, .principal = "", .tool = ""};
    char principal[GB_PRINCIPAL], tool[GB_TOOL_NAME], *last = text;
    struct gb_err err = {0};
    *text = '\0';
    do {
        last = text + strlen(text);
        assert_int_equal(gb_audit_each_usage(a, &behind, most, add_row, text, &err), 0);
        const char *newest = strrchr(last, ' ');
        while (newest && newest > last && newest[-1] != ' ')
            newest--;
        if (newest && sscanf(newest, "%63[^/]/%63[^:]", principal, tool) == 2) {
            behind.principal = principal;
            behind.tool = tool;
        }
    } while (*last);
}

/* What was used is told the same, whether it is settled or not: on a full disk, too, a day goes on. */
static void usage_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *principal, *tool;
    } rows[] = {{"bob", "t1"},  {"alice", "t2"}, {"alice", "t1"}, {"bob", "t1"},
                {"carl", "t9"}, {"alice", "t2"}, {"bob", "t0"},   {"alice", "t2"}};
    static const char expected[] = "alice/t1:1:12 alice/t2:3:43 bob/t0:1:16 bob/t1:2:23 carl/t9:1:14 ";
    for (size_t settled = 0; settled <= LEN(rows); settled++) {
        struct gb_audit *a = open_audit(true);
        struct gb_err err = {0};
        char text[400];
        const int64_t day = time(NULL) / 86400;
        for (size_t i = 0; i < LEN(rows); i++) {
            const struct gb_audit_record r = {.kind = GB_RECORD_INTENT,
                                              .id = "x",
                                              .principal = rows[i].principal,
                                              .body = "{}",
                                              .body_bytes = 2};
            const struct gb_audit_usage used = {.principal = rows[i].principal,
                                                .tool = rows[i].tool,
                                                .calls = 1,
                                                .cpu_us = (int64_t)i + 10};
            assert_int_equal(gb_audit_stage(a, &r, &used, NULL, &err), 0);
        }
        keep(a);
        settle(a, settled);
        if (time(NULL) / 86400 == day) /* else it is of two days */
            for (int64_t most = 1; most < 7; most++) {
                tell_usage(a, day, most, text);
                if (strcmp(text, expected) != 0)
                    fail_msg("%zu settled, %d at a time: '%s', not '%s'", settled, (int)most, text, expected);
            }
        tell_usage(a, day - 1, 10, text);
        assert_string_equal(text, "");
        gb_audit_close(a);
        assert_int_equal(unlink(GB_AUDIT_FILE), 0);
    }
}

/* Whatever else a writer does, it comes behind what is kept. */
static void the_order_is_kept(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    const struct gb_msg_retention keep_little = {.keep_bytes = 1};
    struct gb_err err = {0};
    int64_t lost, removed;
    assert_int_equal(stage_at(a, GB_RECORD_INTENT, "c0", 0), 1);
    keep(a);
    begin(a);
    assert_int_equal(append_at(a, GB_RECORD_START, "", 0), 2);
    assert_int_equal(gb_audit_close_open(a, &lost, &err), 0);
    assert_int_equal(lost, 1);
    commit(a);
    assert_int_equal(stage_at(a, GB_RECORD_INTENT, "c1", 0), 4);
    assert_int_equal(stage_at(a, GB_RECORD_OUTCOME, "c1", 0), 5);
    keep(a);
    assert_int_equal(gb_audit_retain(a, &keep_little, &removed, &err), 0);
    assert_int_equal(removed, 5);
    assert_int_equal(stage_at(a, GB_RECORD_INTENT, "c2", 0), 7);
    keep(a);
    gb_audit_close(a);
    assert_int_equal(sound(), 2);
}

static void what_is_wrong_is_undone(void **state)
{
    (void)state;
    static char big[GB_AUDIT_BODY];
    memset(big, 'x', sizeof(big));
    struct gb_audit *a = open_audit(true);
    struct gb_err err = {0};
    const struct gb_audit_record bad = {.kind = 0, .id = "", .principal = "", .body = "", .body_bytes = 0};
    const struct gb_audit_record large = {
            .kind = GB_RECORD_INTENT, .id = "x", .principal = "p", .body = big, .body_bytes = sizeof(big)};
    const struct gb_audit_usage nobody = {.principal = "", .tool = "t", .calls = 1};
    const struct gb_audit_usage other = {.principal = "q", .tool = "t", .calls = 1};
    stage_at(a, GB_RECORD_INTENT, "c0", 0);
    keep(a);
    stage_at(a, GB_RECORD_INTENT, "c1", 0);
    assert_int_equal(gb_audit_stage(a, &bad, NULL, NULL, &err), -EINVAL);
    keep(a);
    assert_int_equal(sound(), 1);
    assert_int_equal(gb_audit_stage(a, &large, &nobody, NULL, &err), -EINVAL);
    assert_int_equal(gb_audit_stage(a, &large, &other, NULL, &err), -EINVAL);
    int r, staged = 0;
    while (!(r = gb_audit_stage(a, &large, NULL, NULL, &err)))
        staged++;
    assert_int_equal(r, -ENOBUFS);
    assert_true(staged > 10);
    assert_int_equal(stage_at(a, GB_RECORD_OUTCOME, "c0", 0), 2); /* all of them are undone */
    keep(a);
    gb_audit_close(a);
    assert_int_equal(sound(), 2);
    a = open_audit(false);
    assert_int_equal(gb_audit_stage(a, &large, NULL, NULL, &err), -EINVAL); /* a reader */
    gb_audit_close(a);
}

/* --- ends that nobody chose --- */

static void leave_three(void)
{
    struct gb_audit *a = open_audit(true);
    keep_calls(a, 1, 0);
}

/* How many entries are before the one that a byte is in. The second number of each is its size. */
static size_t entry_of(const char *data, size_t byte)
{
    size_t before = 0;
    for (uint32_t end = 0, size;; before++) {
        memcpy(&size, data + end + sizeof(size), sizeof(size));
        end += size;
        if (byte < end)
            return before;
    }
}

/* The file, cut off anywhere and changed anywhere: what is left of it counts up to there, and no further. */
static void damage_cuts_off(void **state)
{
    (void)state;
    static char data[4096];
    in_child(leave_three);
    const size_t len = read_journal(data, sizeof(data));
    assert_true(len > 300 && len < sizeof(data));
    int64_t last = 0;
    for (size_t cut = 0; cut <= len; cut++) {
        unit_write(GB_AUDIT_JOURNAL, data, cut);
        const int64_t count = sound();
        assert_true(count >= last && count <= 3 && (cut < len || count == 3));
        last = count;
    }
    for (size_t at = 0; at < len; at++) {
        const size_t whole = entry_of(data, at);
        data[at] ^= 0x20;
        unit_write(GB_AUDIT_JOURNAL, data, len);
        const int64_t count = sound();
        if (count != 3 && (size_t)count != whole) /* usage and padding are not in the chain */
            fail_msg("byte %zu changed: %d records", at, (int)count);
        data[at] ^= 0x20;
    }
    unit_write(GB_AUDIT_JOURNAL, data, len);
    gb_audit_close(open_audit(true));
    assert_int_equal(ask("SELECT count(*) FROM records"), 3);
    /* What is in the tables is nothing in the journal, before what follows and behind it. */
    unit_write(GB_AUDIT_JOURNAL, data, len);
    assert_int_equal(sound(), 3);
    struct gb_audit *a = open_audit(true);
    assert_int_equal(gb_audit_unsettled(a), 0);
    assert_int_equal(stage_at(a, GB_RECORD_INTENT, "c5", 0), 4);
    keep(a);
    gb_audit_close(a);
    assert_int_equal(sound(), 4);
}

static void room_comes_back_when_all_is_settled(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    const size_t room = gb_audit_room(a);
    keep_calls(a, 2, 0);
    const size_t left = gb_audit_room(a);
    assert_true(left < room);
    settle(a, 5);
    assert_true(gb_audit_unsettled(a) > 0);
    assert_int_equal(gb_audit_room(a), left);
    settle(a, 1);
    assert_int_equal(gb_audit_room(a), room);
    struct gb_err err = {0};
    const struct gb_audit_record r = {.kind = GB_RECORD_INTENT,
                                      .id = "c9",
                                      .principal = "alice",
                                      .body = body,
                                      .body_bytes = sizeof(body) - 1};
    int rc = 0;
    while (!rc)
        rc = gb_audit_stage(a, &r, NULL, NULL, &err);
    assert_int_equal(rc, -ENOBUFS);
    assert_int_equal(gb_audit_room(a), room); /* what was staged is undone */
    gb_audit_close(a);
    assert_int_equal(sound(), 6);
}

static void leave_some_settled(void)
{
    struct gb_audit *a = open_audit(true);
    keep_calls(a, 3, 0);
    settle(a, 4);
    stage_at(a, GB_RECORD_INTENT, "c7", 0);
    keep(a);
}

static void the_next_writer_goes_on(void **state)
{
    (void)state;
    in_child(leave_some_settled);
    assert_int_equal(sound(), 10);
    assert_int_equal(ask("SELECT count(*) FROM records"), 4);
    struct gb_audit *a = open_audit(true);
    assert_int_equal(stage_at(a, GB_RECORD_OUTCOME, "c7", 0), 11);
    keep(a);
    settle(a, SIZE_MAX);
    gb_audit_close(a);
    assert_int_equal(sound(), 11);
    assert_int_equal(ask("SELECT count(*) FROM pending"), 0);
    assert_int_equal(ask("SELECT calls FROM usage"), 4);
    assert_int_equal(ask("SELECT cpu_us FROM usage"), 4 * 1500);
}

static void nobody_writes_behind_it(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    struct gb_err err = {0};
    keep_calls(a, 2, 0);
    settle(a, 3);
    tamper("UPDATE head SET hash = zeroblob(32)");
    assert_int_equal(gb_audit_settle(a, SIZE_MAX, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "changed"));
    gb_audit_close(a);
    struct stat st;
    assert_int_equal(stat(GB_AUDIT_JOURNAL, &st), 0); /* what could not be settled stays */
    assert_true(st.st_size > 0);
}

/* Records, and after each group of them how many there are, until it is killed. */
static void write_for_ever(int ack_fd, unsigned round)
{
    struct gb_audit *a = open_audit(true);
    unsigned dice = round;
    struct gb_err err = {0};
    for (unsigned i = 0;; i++) {
        int64_t seq = 0;
        for (int k = rand_r(&dice) % 4; k >= 0; k--) {
            char id[GB_ID_BYTES];
            snprintf(id, sizeof(id), "r%u-%u", round, i);
            seq = stage_at(a, k % 2 ? GB_RECORD_OUTCOME : GB_RECORD_INTENT, id, 0);
        }
        if (gb_audit_keep(a, &err))
            _exit(6);
        if (write(ack_fd, &seq, sizeof(seq)) != sizeof(seq))
            _exit(5);
        /* However long we are left alive, the journal does not fill up. */
        const size_t most = gb_audit_room(a) < 100000 ? SIZE_MAX : (size_t)(rand_r(&dice) % 30) + 1;
        if ((most == SIZE_MAX || rand_r(&dice) % 5 == 0) && gb_audit_settle(a, most, &err))
            _exit(4);
    }
}

static void killed_writers_lose_nothing(void **state)
{
    (void)state;
    int64_t acknowledged = 0;
    unsigned dice = (unsigned)getpid();
    for (unsigned round = 0; round < 150; round++) {
        int ack[2], status;
        int64_t seq;
        assert_int_equal(pipe2(ack, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_for_ever(ack[1], round);
        close(ack[1]);
        for (int wanted = rand_r(&dice) % 40; wanted && read(ack[0], &seq, sizeof(seq)) == sizeof(seq);
             wanted--)
            acknowledged = seq;
        usleep((useconds_t)(rand_r(&dice) % 500));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status))
            fail_msg("round %u: the writer ended by itself (%d)", round, WEXITSTATUS(status));
        while (read(ack[0], &seq, sizeof(seq)) == sizeof(seq))
            acknowledged = seq;
        close(ack[0]);
        if (round % 2 && acknowledged)
            assert_true(sound() >= acknowledged);
    }
    assert_true(acknowledged > 1000);
    gb_audit_close(open_audit(true));
    assert_true(ask("SELECT max(seq) FROM records") >= acknowledged);
    sound();
}

static void a_full_disk_refuses(void **state)
{
    (void)state;
    static char big[30000], ballast[4096];
    memset(big, 'x', sizeof(big));
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        skip();
    assert_int_equal(mkdir("small", 0700), 0);
    assert_int_equal(mount("none", "small", "tmpfs", 0, "size=1m"), 0);
    assert_int_equal(chdir("small"), 0);
    struct gb_audit *a = open_audit(true);
    struct gb_err err = {0};
    keep_calls(a, 1, 0);
    settle(a, SIZE_MAX);
    int fd = open("ballast", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, ballast, sizeof(ballast)) == sizeof(ballast))
        ;
    const struct gb_audit_record large = {
            .kind = GB_RECORD_INTENT, .id = "x", .principal = "p", .body = big, .body_bytes = sizeof(big)};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gb_audit_stage(a, &large, NULL, NULL, &err), 0);
        assert_int_equal(gb_audit_keep(a, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "full"));
        assert_int_equal(sound(), 3);
    }
    /* Room for the journal, but not for the tables: what was kept is there, and waits. */
    assert_int_equal(ftruncate(fd, lseek(fd, 0, SEEK_END) - 3 * (off_t)sizeof(big)), 0);
    assert_int_equal(gb_audit_stage(a, &large, NULL, NULL, &err), 0);
    assert_int_equal(gb_audit_stage(a, &large, NULL, NULL, &err), 0);
    keep(a);
    assert_int_equal(gb_audit_settle(a, SIZE_MAX, &err), -ENOSPC);
    assert_int_equal(sound(), 5);
    gb_audit_close(a);
    assert_int_equal(sound(), 5);
    assert_int_equal(unlink("ballast"), 0);
    close(fd);
    gb_audit_close(open_audit(true));
    assert_int_equal(ask("SELECT count(*) FROM records"), 5);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(umount2("small", MNT_DETACH), 0);
}

/* In memory: a disk would be waited for many times, and none of this is about losing power. */
static int enter_memory(void **state)
{
    char *path = strdup("/dev/shm/glovebox-unit-XXXXXX");
    *state = path;
    return path && mkdtemp(path) && !chdir(path) ? 0 : -1;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter_memory, unit_leave_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
            TEST(kept_is_found),           TEST(a_noted_head_may_be_in_the_journal),
            TEST(the_tables_are_the_same), TEST(usage_is_told),
            TEST(the_order_is_kept),       TEST(what_is_wrong_is_undone),
            TEST(damage_cuts_off),         TEST(the_next_writer_goes_on),
            TEST(nobody_writes_behind_it), TEST(killed_writers_lose_nothing),
            TEST(a_full_disk_refuses),     TEST(room_comes_back_when_all_is_settled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
