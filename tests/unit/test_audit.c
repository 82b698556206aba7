/* The chain of records: what verification notices, and what retention leaves. */
#include "audit_unit.h"

#include "base/text.h"

#include "audit/chain.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#define DAY_US ((int64_t)86400 * 1000000)

static int64_t now_us(void)
{
    return (int64_t)time(NULL) * 1000000;
}

/* --- the hash itself --- */

static void hash_is_pinned(void **state)
{
    (void)state;
    /* As python3 computes it from docs/audit.md: a change here makes every chain in the world unsound. */
    static const char expected[] = "713c6870019990c45294748f3505135a3124913aa0def61f03e09312fa3d6545";
    struct gb_audit_record r = {.seq = 1,
                                .time_us = 1700000000000001,
                                .kind = GB_RECORD_INTENT,
                                .id = "01J",
                                .principal = "alice",
                                .body = "{\"a\":1}",
                                .body_bytes = 7};
    const uint8_t zeros[GB_HASH_BYTES] = {0};
    uint8_t hash[GB_HASH_BYTES];
    char hex[2 * GB_HASH_BYTES + 1];
    gb_chain_hash(zeros, &r, hash);
    gb_text_hex(hash, GB_HASH_BYTES, hex);
    assert_string_equal(hex, expected);
}

/* Moving bytes from one field to its neighbour must change the hash. */
static void fields_cannot_flow_together(void **state)
{
    (void)state;
    static const struct {
        const char *id, *principal, *body;
    } rows[] = {{"ab", "c", "d"}, {"a", "bc", "d"}, {"ab", "", "cd"}, {"", "abc", "d"}, {"abc", "d", ""}};
    const uint8_t zeros[GB_HASH_BYTES] = {0};
    uint8_t hash[LEN(rows)][GB_HASH_BYTES];
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_audit_record r = {.seq = 1,
                                    .kind = GB_RECORD_INTENT,
                                    .id = rows[i].id,
                                    .principal = rows[i].principal,
                                    .body = rows[i].body,
                                    .body_bytes = strlen(rows[i].body)};
        gb_chain_hash(zeros, &r, hash[i]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(hash[i], hash[j], GB_HASH_BYTES);
    }
}

static void kinds_have_names(void **state)
{
    (void)state;
    for (uint32_t k = GB_RECORD_START; k < GB_RECORD_KINDS; k++)
        assert_string_not_equal(gb_record_kind_name(k), "unknown");
    assert_string_equal(gb_record_kind_name(0), "unknown");
    assert_string_equal(gb_record_kind_name(GB_RECORD_KINDS), "unknown");
}

/* --- appending --- */

static void appends_and_reads(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    begin(a);
    assert_int_equal(append_at(a, GB_RECORD_START, "", 0), 1);
    commit(a);
    append_calls(a, "call", 3, 0);
    gb_audit_close(a);
    assert_int_equal(sound(), 10);
    a = open_audit(true);
    begin(a);
    assert_int_equal(append_at(a, GB_RECORD_START, "", 0), 11);
    gb_audit_rollback(a);
    begin(a);
    assert_int_equal(append_at(a, GB_RECORD_START, "", 0), 11);
    commit(a);
    assert_int_equal(sound(), 11); /* while a writer has it open */
    gb_audit_close(a);
    assert_int_equal(sound(), 11);
    assert_int_equal(ask("PRAGMA auto_vacuum"), 2);
    struct stat st;
    assert_int_equal(stat(GB_AUDIT_FILE "-wal", &st), -1); /* neither writer nor reader leaves one */
    assert_int_equal(stat(GB_AUDIT_FILE "-shm", &st), -1);
}

static void refuses_what_is_no_record(void **state)
{
    (void)state;
    char long_id[GB_ID_BYTES + 1], long_name[GB_PRINCIPAL + 1];
    memset(long_id, 'x', sizeof(long_id) - 1);
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_id[sizeof(long_id) - 1] = long_name[sizeof(long_name) - 1] = '\0';
    char *big = calloc(1, GB_AUDIT_BODY + 2);
    assert_non_null(big);
    memset(big, 'x', GB_AUDIT_BODY + 1);
    const struct gb_audit_record bad[] = {
            {.kind = 0, .id = "", .principal = "", .body = "{}", .body_bytes = 2},
            {.kind = GB_RECORD_KINDS, .id = "", .principal = "", .body = "{}", .body_bytes = 2},
            {.kind = GB_RECORD_INTENT, .id = long_id, .principal = "", .body = "{}", .body_bytes = 2},
            {.kind = GB_RECORD_INTENT, .id = "x", .principal = long_name, .body = "{}", .body_bytes = 2},
            {.kind = GB_RECORD_INTENT, .id = "\xff", .principal = "", .body = "{}", .body_bytes = 2},
            {.kind = GB_RECORD_INTENT, .id = "x", .principal = "\xc3", .body = "{}", .body_bytes = 2},
            {.kind = GB_RECORD_INTENT, .id = "x", .principal = "", .body = "{\0}", .body_bytes = 3},
            {.kind = GB_RECORD_INTENT,
             .id = "x",
             .principal = "",
             .body = "\"\xed\xa0\x80\"",
             .body_bytes = 5},
            {.kind = GB_RECORD_INTENT,
             .id = "x",
             .principal = "",
             .body = big,
             .body_bytes = GB_AUDIT_BODY + 1},
    };
    struct gb_audit *a = open_audit(true);
    struct gb_err err = {0};
    for (size_t i = 0; i < LEN(bad); i++) {
        begin(a);
        append_at(a, GB_RECORD_START, "", 0);
        if (gb_audit_append(a, &bad[i], NULL, &err) != -EINVAL)
            fail_msg("bad record %zu taken", i);
        assert_int_equal(gb_audit_commit(a, &err), -EINVAL); /* undone as a whole */
    }
    struct gb_audit_record full = bad[8];
    full.body_bytes = GB_AUDIT_BODY;
    assert_int_equal(gb_audit_append(a, &full, NULL, &err), -EINVAL); /* no transaction */
    begin(a);
    assert_int_equal(gb_audit_append(a, &full, NULL, &err), 0);
    commit(a);
    gb_audit_close(a);
    free(big);
    assert_int_equal(sound(), 1);
}

static void open_calls_become_lost(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    append_calls(a, "done", 2, 0);
    begin(a);
    append_at(a, GB_RECORD_INTENT, "open1", 0);
    append_at(a, GB_RECORD_LAUNCH, "open1", 0);
    append_at(a, GB_RECORD_INTENT, "open2", 0);
    append_at(a, GB_RECORD_LAUNCH, "probe", 0); /* a launch without an intent is nobody's call */
    commit(a);
    gb_audit_close(a);
    for (int round = 0; round < 2; round++) {
        a = open_audit(true);
        struct gb_err err = {0};
        int64_t lost = -1;
        begin(a);
        assert_int_equal(gb_audit_close_open(a, &lost, &err), 0);
        commit(a);
        gb_audit_close(a);
        assert_int_equal(lost, round ? 0 : 2);
    }
    assert_int_equal(ask("SELECT count(*) FROM records WHERE kind = 5 AND principal = 'alice' AND id IN "
                         "('open1', 'open2')"),
                     2);
    assert_int_equal(ask("SELECT count(*) FROM records WHERE kind = 5"), 2);
    sound();
}

/* --- finding --- */

static int collect(void *context, const struct gb_audit_record *r)
{
    char *text = context;
    size_t used = strlen(text);
    snprintf(text + used, 200 - used, "%d%s ", (int)r->seq, gb_record_kind_name(r->kind));
    return r->seq == 99 ? 7 : 0;
}

static void finds(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    append_calls(a, "c", 3, 1000000); /* 1 to 9 */
    begin(a);
    append_at(a, GB_RECORD_RETENTION, "", 2000000);
    commit(a);
    static const struct {
        struct gb_audit_filter filter;
        const char *expected;
    } rows[] = {
            {{.id = "c1"}, "4intent 5launch 6outcome "},
            {{.id = "c1", .principal = "alice"}, "4intent 5launch 6outcome "},
            {{.id = "c1", .principal = "bob"}, ""},
            {{.id = "none"}, ""},
            {{.ends = true, .newest = true}, "9outcome 6outcome 3outcome "},
            {{.ends = true, .newest = true, .most = 2}, "9outcome 6outcome "},
            {{.ends = true, .newest = true, .before = 9, .principal = "alice"}, "6outcome 3outcome "},
            {{.ends = true, .principal = "bob"}, ""},
            {{.after = 8}, "9outcome 10retention "},
            {{.after = 3, .before = 6}, "4intent 5launch "},
            {{.since_us = 2000000}, "10retention "},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[200] = "";
        struct gb_err err = {0};
        assert_int_equal(gb_audit_each(a, &rows[i].filter, collect, text, &err), 0);
        if (strcmp(text, rows[i].expected) != 0)
            fail_msg("filter %zu: '%s', not '%s'", i, text, rows[i].expected);
    }
    gb_audit_close(a);
}

/* --- tampering --- */

#define BODY(text) "UPDATE records SET body = '" text "' WHERE seq = "

struct attack {
    const char *sql;
    const char *words[4];
};

static const struct attack attacks[] = {
        {"UPDATE records SET time_us = time_us + 1 WHERE seq = 5", {"record 5 ", "changed", "contents"}},
        {"UPDATE records SET kind = 1 WHERE seq = 5", {"record 5 ", "contents"}},
        {"UPDATE records SET kind = 0 WHERE seq = 5", {"record 5 ", "kind"}},
        {"UPDATE records SET kind = kind + 4294967296 WHERE seq = 5", {"record 5 ", "kind"}},
        {"UPDATE records SET id = 'c9' WHERE seq = 5", {"record 5 ", "contents"}},
        {"UPDATE records SET id = id || char(0) || 'x' WHERE seq = 5", {"record 5 ", "id"}},
        {"UPDATE records SET principal = 'bob' WHERE seq = 5", {"record 5 ", "contents"}},
        {"UPDATE records SET principal = principal || char(0) WHERE seq = 5", {"record 5 ", "principal"}},
        {BODY("{}") "5", {"record 5 ", "contents"}},
        {"UPDATE records SET body = body || ' ' WHERE seq = 5", {"record 5 ", "contents"}},
        {"UPDATE records SET body = body || char(0) WHERE seq = 5", {"record 5 ", "body"}},
        {"UPDATE records SET hash = zeroblob(32) WHERE seq = 5", {"record 5 ", "its hash is not"}},
        {"UPDATE records SET hash = zeroblob(31) WHERE seq = 5", {"record 5 ", "32 bytes"}},
        {BODY("{}") "1", {"record 1 ", "contents"}},
        {BODY("{}") "10", {"record 10 ", "contents"}},
        {"UPDATE records SET hash = zeroblob(32) WHERE seq = 10", {"record 10 ", "its hash is not"}},
        {"UPDATE records SET seq = 12 WHERE seq = 10", {"record 10 is missing", "12"}},
        {"UPDATE records SET seq = -1 WHERE seq = 10", {"record 10 is missing", "up to 10"}},
        {"DELETE FROM records WHERE seq = 1", {"record 1 is missing", "2"}},
        {"DELETE FROM records WHERE seq = 5", {"record 5 is missing", "6"}},
        {"DELETE FROM records WHERE seq BETWEEN 3 AND 7", {"record 3 is missing", "8"}},
        {"DELETE FROM records WHERE seq = 10", {"record 10 is missing", "up to 10"}},
        {"DELETE FROM records WHERE seq >= 4", {"record 4 is missing", "up to 10"}},
        {"DELETE FROM records", {"record 1 is missing", "up to 10"}},
        {"DELETE FROM records WHERE seq = 5; UPDATE records SET seq = seq - 1 WHERE seq > 5",
         {"record 5 ", "does not follow"}},
        {"UPDATE records SET seq = 0 WHERE seq = 5; UPDATE records SET seq = 5 WHERE seq = 6; UPDATE records "
         "SET seq = 6 WHERE seq = 0",
         {"record 5 ", "moved"}},
        {"INSERT INTO records SELECT 11, time_us, kind, id, principal, body, hash FROM records WHERE seq = "
         "10",
         {"record 11 ", "does not follow"}},
        {"INSERT INTO records SELECT -3, time_us, kind, id, principal, body, hash FROM records WHERE seq = "
         "10",
         {"1 records were inserted before record 1"}},
        {"UPDATE records SET seq = 100 + seq WHERE seq >= 5; INSERT INTO records SELECT 5, time_us, kind, "
         "id, principal, body, hash FROM "
         "records WHERE seq = 105; UPDATE records SET seq = seq - 99 WHERE seq > 100",
         {"record 6 ", "does not follow"}},
        {"UPDATE head SET seq = 9", {"record 10 was inserted"}},
        {"UPDATE head SET hash = zeroblob(32)", {"record 10 ", "head"}},
        {"UPDATE head SET count = 11", {"10 records", "11"}},
        {"DELETE FROM head", {"head"}},
        {"INSERT INTO head SELECT * FROM head", {"head"}},
        {"UPDATE base SET seq = 2", {"base", "up to 2", "no record says so"}},
        {"UPDATE base SET hash = randomblob(32)", {"base", "no record says so"}},
        {"UPDATE base SET removed = 1", {"base"}},
        {"DELETE FROM base", {"base"}},
        {"UPDATE base SET seq = 2, hash = (SELECT hash FROM records WHERE seq = 2); DELETE FROM records "
         "WHERE seq <= 2",
         {"base"}},
        {"DROP INDEX records_id", {"tables"}},
        {"CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq = 1; END", {"tables"}},
        {"CREATE TABLE other(x)", {"tables"}},
        {"PRAGMA user_version = 3", {"layout 3"}},
        {"PRAGMA application_id = 1", {"not an audit"}},
};

static void copy_file(const char *from, const char *to)
{
    char bytes[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n;
    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof(bytes))) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
    close(in);
    close(out);
}

static void run_attacks(const struct attack *rows, size_t count)
{
    sound();
    copy_file(GB_AUDIT_FILE, "good.db");
    for (size_t i = 0; i < count; i++) {
        copy_file("good.db", GB_AUDIT_FILE);
        tamper(rows[i].sql);
        unsound(rows[i].sql, rows[i].words);
    }
    copy_file("good.db", GB_AUDIT_FILE);
    sound();
}

static void tampering_is_named(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    begin(a);
    append_at(a, GB_RECORD_START, "", 0);
    commit(a);
    append_calls(a, "c", 3, 0);
    gb_audit_close(a);
    run_attacks(attacks, LEN(attacks));
}

/* A writer does not append to a chain whose end is not what it left. */
static void writer_refuses_a_changed_end(void **state)
{
    (void)state;
    static const char *const changes[] = {"DELETE FROM records WHERE seq = 3", "UPDATE head SET seq = 2",
                                          "UPDATE head SET hash = zeroblob(32)", "DELETE FROM records",
                                          "CREATE TABLE other(x)"};
    struct gb_audit *a = open_audit(true);
    append_calls(a, "c", 1, 0);
    gb_audit_close(a);
    copy_file(GB_AUDIT_FILE, "good.db");
    for (size_t i = 0; i < LEN(changes); i++) {
        struct gb_err err = {0};
        copy_file("good.db", GB_AUDIT_FILE);
        tamper(changes[i]);
        if (gb_audit_open(".", true, false, &a, &err) != -EBADMSG)
            fail_msg("'%s' not noticed by the writer", changes[i]);
        assert_non_null(strstr(err.text, "changed"));
    }
}

static void damage_is_named(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    append_calls(a, "c", 300, 0);
    gb_audit_close(a);
    copy_file(GB_AUDIT_FILE, "good.db");
    struct stat st;
    assert_int_equal(stat(GB_AUDIT_FILE, &st), 0);
    int missed = 0;
    for (off_t page = 0; page < st.st_size; page += 4096) {
        char noise[64];
        memset(noise, 0xa5, sizeof(noise));
        copy_file("good.db", GB_AUDIT_FILE);
        int fd = open(GB_AUDIT_FILE, O_WRONLY | O_CLOEXEC);
        assert_int_equal(pwrite(fd, noise, sizeof(noise), page + 4096 - 1024), sizeof(noise));
        close(fd);
        struct gb_err err = {0};
        int64_t count;
        uint8_t head[GB_HASH_BYTES];
        a = NULL;
        int r = gb_audit_open(".", false, false, &a, &err);
        if (!r)
            r = gb_audit_verify(a, NULL, &count, head, &err);
        gb_audit_close(a);
        missed += r == 0;
    }
    /* Bytes that nothing uses may be anything: the tail of a page that is not full, the map of free pages. */
    assert_true(missed <= 12);
    copy_file("good.db", GB_AUDIT_FILE);
    assert_int_equal(truncate(GB_AUDIT_FILE, st.st_size / 2), 0);
    unsound("half a file", (const char *const[4]){"damaged"});
}

static void foreign_files_stay_as_they_are(void **state)
{
    (void)state;
    static const char text[] =
            "Dear diary, this is certainly not a database, and it is long enough to have a header, or so I "
            "hope; the header of a database has one hundred bytes.";
    struct gb_audit *a;
    struct gb_err err = {0};
    unit_write(GB_AUDIT_FILE, text, sizeof(text));
    assert_int_equal(gb_audit_open(".", true, false, &a, &err), -EBADMSG);
    assert_int_equal(gb_audit_open(".", false, false, &a, &err), -EBADMSG);
    char back[sizeof(text) + 1];
    int fd = open(GB_AUDIT_FILE, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, back, sizeof(back)), sizeof(text));
    close(fd);
    assert_memory_equal(back, text, sizeof(text));

    unlink(GB_AUDIT_FILE);
    tamper("CREATE TABLE diary(day, text); INSERT INTO diary VALUES(1, 'x')");
    assert_int_equal(gb_audit_open(".", true, false, &a, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "not an audit"));
    assert_int_equal(ask("SELECT count(*) FROM diary"), 1);
    assert_int_equal(ask("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'delete'"), 1);

    unlink(GB_AUDIT_FILE);
    assert_int_equal(gb_audit_open(".", false, false, &a, &err), -ENOENT); /* a reader makes nothing */
    assert_int_equal(access(GB_AUDIT_FILE, F_OK), -1);
    assert_int_equal(gb_audit_open("none", true, false, &a, &err), -ENOENT);
    assert_int_equal(symlink("good.db", GB_AUDIT_FILE), 0);
    assert_int_equal(gb_audit_open(".", false, false, &a, &err), -EBADMSG);
    assert_true(gb_audit_open(".", true, false, &a, &err) < 0);
    assert_int_equal(access("good.db", F_OK), -1);
    unlink(GB_AUDIT_FILE);
    assert_int_equal(mkdir(GB_AUDIT_FILE, 0700), 0);
    assert_int_equal(gb_audit_open(".", false, false, &a, &err), -EBADMSG);
    assert_true(gb_audit_open(".", true, false, &a, &err) < 0);
    rmdir(GB_AUDIT_FILE);
    unit_write(GB_AUDIT_FILE, "", 0);
    assert_int_equal(gb_audit_open(".", false, false, &a, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "empty"));
    gb_audit_close(open_audit(true)); /* empty is what a kill at the very start leaves */
    assert_int_equal(sound(), 0);
}

static void noted_head(void **state)
{
    (void)state;
    struct gb_err err = {0};
    int64_t count;
    uint8_t old[GB_HASH_BYTES], head[GB_HASH_BYTES];
    struct gb_audit *a = open_audit(true);
    append_calls(a, "c", 2, now_us() - 3 * DAY_US);
    assert_int_equal(gb_audit_verify(a, NULL, &count, old, &err), 0);
    append_calls(a, "d", 2, 0);
    assert_int_equal(gb_audit_verify(a, old, &count, head, &err), 0);
    assert_int_equal(count, 12);
    assert_memory_not_equal(old, head, GB_HASH_BYTES);
    struct gb_msg_retention keep = {.keep_seconds = 86400};
    int64_t removed;
    assert_int_equal(gb_audit_retain(a, &keep, &removed, &err), 0);
    assert_int_equal(removed, 6);
    assert_int_equal(gb_audit_verify(a, old, &count, head, &err),
                     0); /* where the cut is, it is still known */
    old[0] ^= 1;
    assert_int_equal(gb_audit_verify(a, old, &count, head, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "noted"));
    gb_audit_close(a);
}

/* --- retention --- */

static int64_t retain(struct gb_audit *a, int64_t seconds, int64_t bytes)
{
    struct gb_msg_retention keep = {.keep_seconds = seconds, .keep_bytes = bytes};
    struct gb_err err = {0};
    int64_t removed, all = 0;
    do {
        if (gb_audit_retain(a, &keep, &removed, &err))
            fail_msg("retain: %s", err.text);
        all += removed;
    } while (removed);
    sound();
    return all;
}

static void by_age(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    assert_int_equal(retain(a, 86400, 0), 0); /* nothing there */
    append_calls(a, "a", 5000, now_us() - 10 * DAY_US);
    append_calls(a, "b", 10, now_us() - 2 * DAY_US);
    append_calls(a, "c", 10, 0);
    assert_int_equal(retain(a, 0, 0), 0);
    assert_int_equal(retain(a, 20 * 86400, 0), 0);
    assert_int_equal(retain(a, 5 * 86400, 0), 15000);
    assert_int_equal(retain(a, 5 * 86400, 0), 0);
    /* Free pages go back, so that the file is not mostly air. */
    assert_true(ask("PRAGMA freelist_count") <= ask("PRAGMA page_count") / 8 + 1);
    assert_int_equal(retain(a, 86400, 0), 30);
    assert_int_equal(retain(a, 86400, 0), 0);
    assert_int_equal(ask("SELECT count(*) FROM records WHERE kind <> 6"), 30);
    append_calls(a, "d", 1, 0);
    gb_audit_close(a);
    a = open_audit(true);
    append_calls(a, "e", 1, 0);
    gb_audit_close(a);
    sound();
}

static void by_size(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    for (int i = 0; i < 10; i++) {
        char prefix[16];
        snprintf(prefix, sizeof(prefix), "r%d-", i);
        append_calls(a, prefix, 1000, 0);
        retain(a, 0, 2 << 20);
        assert_true(ask("PRAGMA page_count") * 4096 <= (2 << 20) + (256 << 10));
    }
    assert_true(ask("SELECT count(*) FROM records") > 3000); /* and not much less than it may be */
    /* The newest are those that stay. */
    assert_int_equal(ask("SELECT count(*) FROM records WHERE id GLOB 'r9-*'"), 3000);
    assert_int_equal(ask("SELECT count(*) FROM records WHERE id GLOB 'r0-*'"), 0);
    /* A size that cannot be held empties the chain and comes to an end. */
    retain(a, 0, 1);
    assert_int_equal(ask("SELECT count(*) FROM records WHERE kind <> 6"), 0);
    assert_int_equal(retain(a, 0, 1), 0);
    gb_audit_close(a);
}

/* Calls overlap without a pause: none may be divided, and yet the oldest must go. */
static void calls_stay_whole(void **state)
{
    (void)state;
    enum { CALLS = 600, AT_ONCE = 7 };
    struct gb_audit *a = open_audit(true);
    const int64_t old = now_us() - 10 * DAY_US;
    char id[GB_ID_BYTES];
    begin(a);
    append_at(a, GB_RECORD_INTENT, "for-ever", old); /* runs all the time */
    for (int i = 0; i < CALLS + AT_ONCE; i++) {
        const int64_t when = i < CALLS / 2 ? old : 0;
        snprintf(id, sizeof(id), "c%d", i);
        if (i < CALLS)
            append_at(a, GB_RECORD_INTENT, id, when);
        snprintf(id, sizeof(id), "c%d", i - AT_ONCE);
        if (i >= AT_ONCE)
            append_at(a, GB_RECORD_OUTCOME, id, when);
    }
    commit(a);
    static const char divided[] = "SELECT count(*) FROM (SELECT id FROM records WHERE id GLOB 'c*' GROUP BY "
                                  "id HAVING count(*) <> 2)";
    assert_true(retain(a, 86400, 0) > CALLS / 2);
    assert_int_equal(ask(divided), 0);
    assert_int_equal(ask("SELECT count(*) FROM records WHERE id = 'for-ever'"), 1);
    assert_int_equal(ask("SELECT count(*) FROM records WHERE id IN ('c0', 'c290')"), 0);
    assert_int_equal(ask("SELECT count(*) FROM records, base WHERE records.seq <= base.seq"), 1 + AT_ONCE);

    static const struct attack rows[] = {
            {BODY("{}") "1", {"that retention left"}},
            {"UPDATE records SET hash = zeroblob(32) WHERE seq = 1", {"that retention left"}},
            {"UPDATE records SET time_us = 1 WHERE seq = 1", {"that retention left"}},
            {"UPDATE records SET kind = 9 WHERE seq = 1", {"record 1", "kind"}},
            {"DELETE FROM records WHERE seq = 1", {"that retention left"}},
            {"DELETE FROM records WHERE seq = (SELECT seq FROM base) + 1", {"is missing"}},
            {"INSERT INTO records SELECT 2, time_us, kind, id, principal, body, hash FROM records WHERE seq "
             "= 1",
             {"that retention left"}},
            {"UPDATE base SET seq = seq - 1", {"base", "says otherwise"}},
            {"UPDATE base SET seq = seq + 1", {"base", "says otherwise"}},
            {"UPDATE base SET hash = zeroblob(32)", {"base", "says otherwise"}},
            {"UPDATE base SET removed = removed + 1", {"base", "says otherwise"}},
            {"UPDATE base SET seq = 0, hash = zeroblob(32), removed = 0", {"record 2 is missing"}},
            {"UPDATE records SET body = replace(body, '\"removed\":', '\"removed\":1') WHERE kind = 6",
             {"was changed", "contents"}},
            {"UPDATE records SET body = replace(body, '\"through\":', '\"through\":1') WHERE kind = 6",
             {"was changed", "contents"}},
            {"UPDATE records SET body = replace(body, '\"kept\":', '\"kept\":1') WHERE kind = 6",
             {"was changed", "contents"}},
            {"DELETE FROM records WHERE kind = 6", {"is missing"}},
            {"UPDATE base SET hash = (SELECT hash FROM records WHERE seq = base.seq + 5), seq = seq + 5;"
             "DELETE FROM records WHERE seq > 1 AND seq <= (SELECT seq FROM base)",
             {"base", "says otherwise"}},
    };
    gb_audit_close(a);
    run_attacks(rows, LEN(rows));

    a = open_audit(true);
    begin(a);
    append_at(a, GB_RECORD_OUTCOME, "for-ever", old);
    commit(a);
    retain(a, 0, 1);
    assert_int_equal(ask("SELECT count(*) FROM records WHERE kind <> 6"), 0);
    gb_audit_close(a);
}

/* With a busy and an idle stretch in turn there are as many RETENTION records as steps that removed
 * something. */
static void retention_does_not_feed_on_itself(void **state)
{
    (void)state;
    struct gb_audit *a = open_audit(true);
    append_calls(a, "a", 1, now_us() - 10 * DAY_US);
    assert_int_equal(retain(a, 86400, 0), 3);
    gb_audit_close(a);
    /* Make that record old, with everything that proves it: a new chain of one old RETENTION record is
     * enough. */
    a = open_audit(true);
    for (int i = 0; i < 5; i++)
        assert_int_equal(retain(a, 1, 1), 0);
    assert_int_equal(ask("SELECT count(*) FROM records"), 1);
    gb_audit_close(a);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, unit_enter_dir, unit_leave_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(hash_is_pinned),
            cmocka_unit_test(fields_cannot_flow_together),
            cmocka_unit_test(kinds_have_names),
            TEST(appends_and_reads),
            TEST(refuses_what_is_no_record),
            TEST(open_calls_become_lost),
            TEST(finds),
            TEST(tampering_is_named),
            TEST(writer_refuses_a_changed_end),
            TEST(damage_is_named),
            TEST(foreign_files_stay_as_they_are),
            TEST(noted_head),
            TEST(by_age),
            TEST(by_size),
            TEST(calls_stay_whole),
            TEST(retention_does_not_feed_on_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
