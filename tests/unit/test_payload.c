/* Payloads: what a box is to run, as it crosses the privilege boundary. */
#include "unit.h"

#include "wire/payload.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

static struct gb_payload p;

static struct gb_buf start(void)
{
    return (struct gb_buf){.max = GB_PAYLOAD_BYTES};
}

static int read_back(const struct gb_buf *b, struct gb_err *err)
{
    return gb_payload_read(b->data ? b->data : "", b->len, &p, err);
}

static void all_kinds_come_back(void **state)
{
    (void)state;
    struct gb_buf b = start();
    gb_payload_add_text(&b, GB_ITEM_ARG, "sh");
    gb_payload_add_text(&b, GB_ITEM_NAME, "dir/a");
    gb_payload_add(&b, GB_ITEM_DATA, "\0\xFF", 2);
    gb_payload_add_text(&b, GB_ITEM_ARG, ""); /* only the program's name may not be empty */
    gb_payload_add_text(&b, GB_ITEM_ENV, "A=");
    gb_payload_add_text(&b, GB_ITEM_ENV, "_b1=c=d");
    gb_payload_add_text(&b, GB_ITEM_OUTPUT, "out/*.csv");
    gb_payload_add_text(&b, GB_ITEM_NAME, "b");
    gb_payload_add(&b, GB_ITEM_PROGRAM, NULL, 0);
    gb_payload_add_text(&b, GB_ITEM_NAME, "c");
    gb_payload_add_text(&b, GB_ITEM_SKIPPED, "why not");
    int fd = gb_payload_seal(&b);
    assert_true(fd >= 0);
    assert_int_equal(gb_payload_open(fd, b.len, &p, NULL), 0);
    assert_int_equal(p.argc, 2);
    assert_string_equal(p.argv[0], "sh");
    assert_string_equal(p.argv[1], "");
    assert_null(p.argv[2]);
    assert_int_equal(p.envc, 2);
    assert_string_equal(p.env[1], "_b1=c=d");
    assert_null(p.env[2]);
    assert_int_equal(p.output_count, 1);
    assert_string_equal(p.outputs[0], "out/*.csv");
    assert_int_equal(p.file_count, 3);
    assert_string_equal(p.files[0].name, "dir/a");
    assert_int_equal(p.files[0].len, 2);
    assert_memory_equal(p.files[0].data, "\0\xFF", 2);
    assert_int_equal(p.files[0].mode, 0644);
    assert_int_equal(p.files[0].fd, -1);
    assert_non_null(p.files[1].data); /* an empty file is a file */
    assert_int_equal(p.files[1].len, 0);
    assert_int_equal(p.files[1].mode, 0755);
    assert_null(p.files[2].data);
    assert_string_equal(p.skipped[2], "why not");
    assert_null(p.skipped[0]);
    gb_payload_done(&p);
    assert_null(p.map);
    close(fd);
    gb_buf_done(&b);
}

static void nothing_is_a_payload(void **state)
{
    (void)state;
    struct gb_buf b = start();
    int fd = gb_payload_seal(&b);
    assert_true(fd >= 0);
    assert_int_equal(gb_payload_open(fd, 0, &p, NULL), 0);
    assert_int_equal(p.argc + p.envc + p.output_count + p.file_count, 0);
    assert_null(p.argv[0]);
    gb_payload_done(&p);
    close(fd);
}

/* One item each, raw; the word that the error must have. */
static const struct {
    enum gb_item_kind kind;
    const char *data;
    size_t len;
    const char *word;
} bad[] = {
        {0, "x", 2, "no such kind"},
        {GB_ITEM_KINDS, "x", 2, "no such kind"},
        {(enum gb_item_kind)0x7fffffff, "x", 2, "no such kind"},
        {GB_ITEM_ARG, "", 0, "NUL"},
        {GB_ITEM_ARG, "abc", 3, "NUL"},
        {GB_ITEM_ARG, "a\0b", 4, "NUL"},
        {GB_ITEM_ARG, "", 1, "empty"},
        {GB_ITEM_ENV, "A", 2, "NAME=VALUE"},
        {GB_ITEM_ENV, "=b", 3, "NAME=VALUE"},
        {GB_ITEM_ENV, "1a=b", 5, "NAME=VALUE"},
        {GB_ITEM_ENV, "a b=c", 6, "NAME=VALUE"},
        {GB_ITEM_ENV, "", 1, "NAME=VALUE"},
        {GB_ITEM_OUTPUT, "/etc/passwd", 12, "relative"},
        {GB_ITEM_OUTPUT, "../x", 5, "relative"},
        {GB_ITEM_OUTPUT, "", 1, "relative"},
        {GB_ITEM_NAME, "/x", 3, "relative"},
        {GB_ITEM_NAME, "a/../x", 7, "relative"},
        {GB_ITEM_NAME, "a//b", 5, "relative"},
        {GB_ITEM_NAME, ".", 2, "relative"},
        {GB_ITEM_NAME, "a", 2, "followed"}, /* the end comes instead */
        {GB_ITEM_DATA, "x", 1, "no file"},
        {GB_ITEM_PROGRAM, "x", 1, "no file"},
        {GB_ITEM_SKIPPED, "x", 2, "no file"},
};

static void bad_items_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad); i++) {
        struct gb_buf b = start();
        struct gb_err err = {0};
        gb_payload_add(&b, bad[i].kind, bad[i].data, bad[i].len);
        if (read_back(&b, &err) != -EINVAL || err.code != GB_ERR_USAGE || !strstr(err.text, bad[i].word))
            fail_msg("row %zu: %s", i, err.text);
        gb_buf_done(&b);
    }
}

static void a_name_wants_its_bytes_next(void **state)
{
    (void)state;
    static const enum gb_item_kind others[] = {GB_ITEM_ARG, GB_ITEM_ENV, GB_ITEM_OUTPUT, GB_ITEM_NAME};
    for (size_t i = 0; i < LEN(others); i++) {
        struct gb_buf b = start();
        struct gb_err err = {0};
        gb_payload_add_text(&b, GB_ITEM_NAME, "a");
        gb_payload_add_text(&b, others[i], "A=b");
        assert_int_equal(read_back(&b, &err), -EINVAL);
        assert_non_null(strstr(err.text, "item 1: "));
        gb_buf_done(&b);
    }
}

/* Cut anywhere, a payload is refused or is a shorter one: never read past its end (the sanitizer sees that).
 */
static void every_prefix_is_safe(void **state)
{
    (void)state;
    struct gb_buf b = start();
    gb_payload_add_text(&b, GB_ITEM_ARG, "sh");
    gb_payload_add_text(&b, GB_ITEM_ENV, "A=b");
    gb_payload_add_text(&b, GB_ITEM_NAME, "file");
    gb_payload_add(&b, GB_ITEM_DATA, "data", 4);
    size_t good = 0;
    for (size_t len = 0; len <= b.len; len++) {
        char *copy = malloc(len ? len : 1);
        memcpy(copy, b.data, len);
        good += !gb_payload_read(copy, len, &p, NULL);
        free(copy);
    }
    assert_int_equal(good, 4); /* after 0, 1, 2 and 4 items */
    gb_buf_done(&b);
}

static void lengths_are_held_against_what_is_left(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {3, 4, 0x7fffffff, 0xffffffff, 0xfffffff8};
    for (size_t i = 0; i < LEN(lengths); i++) {
        uint32_t raw[3] = {GB_ITEM_ARG, lengths[i], 0};
        memcpy(&raw[2], "a", 2);
        struct gb_err err = {0};
        assert_int_equal(gb_payload_read((const char *)raw, 10, &p, &err), -EINVAL);
        assert_non_null(strstr(err.text, "longer than what is left"));
    }
}

static void counts_have_ceilings(void **state)
{
    (void)state;
    static const struct {
        enum gb_item_kind kind;
        const char *text;
        size_t most;
    } rows[] = {{GB_ITEM_ARG, "a", GB_PAYLOAD_STRINGS},
                {GB_ITEM_ENV, "A=b", GB_PAYLOAD_STRINGS},
                {GB_ITEM_OUTPUT, "a", GB_PAYLOAD_STRINGS},
                {GB_ITEM_NAME, "a", GB_PAYLOAD_FILES}};
    for (size_t i = 0; i < LEN(rows); i++) {
        struct gb_buf b = start();
        for (size_t n = 0; n <= rows[i].most; n++) {
            struct gb_err err = {0};
            assert_int_equal(read_back(&b, &err), 0); /* with n of them */
            gb_payload_add_text(&b, rows[i].kind, rows[i].text);
            if (rows[i].kind == GB_ITEM_NAME)
                gb_payload_add(&b, GB_ITEM_DATA, "", 0);
        }
        struct gb_err err = {0};
        assert_int_equal(read_back(&b, &err), -EINVAL);
        assert_non_null(strstr(err.text, "too many"));
        gb_buf_done(&b);
    }
}

static void what_did_not_fit_is_not_sealed(void **state)
{
    (void)state;
    struct gb_buf b = {.max = 10};
    gb_payload_add_text(&b, GB_ITEM_ARG, "longer than that");
    assert_int_equal(gb_payload_seal(&b), -E2BIG);
    b.failed = true;
    assert_int_equal(gb_payload_seal(&b), -ENOMEM);
    gb_buf_done(&b);
}

static int open_memfd(int seals)
{
    int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void only_a_sealed_memfd_is_opened(void **state)
{
    (void)state;
    const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    const int each[] = {0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL};
    for (size_t i = 0; i < LEN(each); i++) {
        int fd = open_memfd(i ? all & ~each[i] : 0);
        assert_int_equal(gb_payload_check(fd, 4096, NULL), -EINVAL);
        assert_int_equal(gb_payload_open(fd, 4096, &p, NULL), -EINVAL);
        close(fd);
    }
    int good = open_memfd(all), ends[2], sockets[2];
    assert_int_equal(gb_payload_check(good, 4096, NULL), 0);
    assert_int_equal(gb_payload_check(good, 4095, NULL), -EINVAL);
    assert_int_equal(gb_payload_check(good, GB_PAYLOAD_BYTES + 1, NULL), -EINVAL);
    assert_int_equal(gb_payload_check(good, UINT64_MAX, NULL), -EINVAL);
    close(good);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    int file = open("file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const int others[] = {ends[0], ends[1], sockets[0], file, -1};
    for (size_t i = 0; i < LEN(others); i++)
        assert_int_equal(gb_payload_open(others[i], 0, &p, NULL), -EINVAL);
    for (size_t i = 0; i + 1 < LEN(others); i++)
        close(others[i]);
    close(sockets[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(all_kinds_come_back),
            cmocka_unit_test(nothing_is_a_payload),
            cmocka_unit_test(bad_items_are_refused),
            cmocka_unit_test(a_name_wants_its_bytes_next),
            cmocka_unit_test(every_prefix_is_safe),
            cmocka_unit_test(lengths_are_held_against_what_is_left),
            cmocka_unit_test(counts_have_ceilings),
            cmocka_unit_test(what_did_not_fit_is_not_sealed),
            cmocka_unit_test(only_a_sealed_memfd_is_opened),
    };
    return cmocka_run_group_tests(tests, unit_enter_dir, unit_leave_dir);
}
