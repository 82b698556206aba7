/* Collecting files from a dead box, on a directory that a hostile program could have left. */
#include "unit.h"

#include "sandbox/outputs.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static void patterns(void **state)
{
    (void)state;
    static const char *const good[] = {"a.txt", "*.png", "out/*.csv", "[ab]?", ".hidden", "a b"};
    static const char *const bad[] = {"",   "/etc/passwd", "/sandbox/a", "/sandbox/", "../a", "a/../b",
                                      "..", ".",           "./a",        "a//b",      "a/",   "/"};
    for (size_t i = 0; i < LEN(good); i++)
        if (gb_outputs_check(good[i], NULL))
            fail_msg("'%s' refused", good[i]);
    for (size_t i = 0; i < LEN(bad); i++) {
        struct gb_err err = {0};
        if (gb_outputs_check(bad[i], &err) != -EINVAL)
            fail_msg("'%s' taken", bad[i]);
        assert_int_equal(err.code, GB_ERR_USAGE);
        assert_non_null(strstr(err.text, bad[i]));
        assert_non_null(strstr(err.text, "/sandbox"));
    }
}

static int collect(const char *const *outputs, size_t count, struct gb_result *ret_result)
{
    struct gb_spec spec = {.outputs = outputs, .output_count = count};
    struct gb_box box = {.spec = &spec, .scratch_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    struct gb_err err = {0};
    *ret_result = (struct gb_result){0};
    assert_true(box.scratch_fd >= 0);
    int r = gb_outputs_collect(&box, ret_result, &err);
    close(box.scratch_fd);
    return r;
}

static const struct gb_output *named(const struct gb_result *r, const char *name)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (!strcmp(r->files[i].name, name))
            return &r->files[i];
    return NULL;
}

/* Fresh for each test: sandbox/ in the working directory, as in the root of the scratch file system. */
static int make_sandbox(void **state)
{
    return unit_enter_dir(state) || mkdir("sandbox", 0755);
}

static void takes_what_matches(void **state)
{
    (void)state;
    unit_write("sandbox/a.txt", "alpha", 5);
    unit_write("sandbox/b.bin", "\0\xFF\0", 3);
    unit_write("sandbox/empty.txt", "", 0);
    unit_write("sandbox/.hidden.txt", "no", 2);
    unit_write("outside.txt", "no", 2);
    mkdir("sandbox/out", 0755);
    mkdir("sandbox/out/deep", 0755);
    unit_write("sandbox/out/c.csv", "c", 1);
    unit_write("sandbox/out/deep/d.csv", "d", 1);
    static const char *const outputs[] = {"*.txt", "b.bin", "out/*.csv", "absent"};
    struct gb_result r;
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_int_equal(
            r.file_count,
            5); /* '*' crosses no directory and finds no hidden file; a name that was asked for is told */
    assert_string_equal(named(&r, "absent")->skipped, "is not there");
    assert_memory_equal(named(&r, "a.txt")->data, "alpha", 5);
    assert_int_equal(named(&r, "b.bin")->len, 3);
    assert_memory_equal(named(&r, "b.bin")->data, "\0\xFF\0", 3);
    assert_int_equal(named(&r, "empty.txt")->len, 0);
    assert_non_null(named(&r, "empty.txt")->data);
    assert_non_null(named(&r, "out/c.csv")->data);
    gb_result_done(&r);
}

/* Links, sockets, FIFOs and second names are reported and not read. */
static void refuses_what_is_no_plain_file(void **state)
{
    (void)state;
    unit_write("secret", "host secret", 11);
    mkdir("elsewhere", 0755);
    unit_write("elsewhere/f", "x", 1);
    assert_int_equal(symlink("/etc/passwd", "sandbox/absolute"), 0);
    assert_int_equal(symlink("../secret", "sandbox/relative"), 0);
    assert_int_equal(symlink("gone", "sandbox/dangling"), 0);
    assert_int_equal(symlink("../elsewhere", "sandbox/dir"), 0);
    assert_int_equal(link("secret", "sandbox/hard"), 0);
    assert_int_equal(mkfifo("sandbox/fifo", 0644), 0);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "sandbox/socket"};
    assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
    close(s);
    static const char *const outputs[] = {"*", "dir/*"};
    static const char *const names[] = {"absolute", "relative", "dangling", "dir", "hard", "fifo", "socket"};
    struct gb_result r;
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_int_equal(r.file_count, LEN(names));
    for (size_t i = 0; i < LEN(names); i++) {
        const struct gb_output *f = named(&r, names[i]);
        if (!f || f->data || f->len || !f->skipped)
            fail_msg("%s was taken or lost", names[i]);
    }
    assert_string_equal(named(&r, "absolute")->skipped, "is a symbolic link");
    assert_string_equal(named(&r, "hard")->skipped, "has several names (hard links)");
    assert_string_equal(named(&r, "fifo")->skipped, "is not a regular file");
    gb_result_done(&r);
}

static void the_directory_itself_may_be_a_link(void **state)
{
    (void)state;
    assert_int_equal(rmdir("sandbox"), 0);
    assert_int_equal(symlink("/etc", "sandbox"), 0);
    static const char *const outputs[] = {"passwd", "*"};
    struct gb_result r;
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_int_equal(r.file_count, 1);
    assert_null(named(&r, "passwd")->data);
    gb_result_done(&r);
    unlink("sandbox");
}

static void size_is_bounded(void **state)
{
    (void)state;
    unit_write("sandbox/huge", "", 0);
    assert_int_equal(truncate("sandbox/huge", (off_t)GB_OUTPUT_BYTES + 1), 0);
    unit_write("sandbox/most", "", 0);
    assert_int_equal(truncate("sandbox/most", GB_OUTPUT_BYTES - 10), 0);
    static const char *const outputs[] = {"huge", "most"};
    struct gb_result r;
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_string_equal(named(&r, "huge")->skipped, "is more than the 64 MiB that come back together");
    assert_int_equal(named(&r, "most")->len, GB_OUTPUT_BYTES - 10);
    gb_result_done(&r);
    /* exactly all of it is taken */
    assert_int_equal(unlink("sandbox/huge") || truncate("sandbox/most", GB_OUTPUT_BYTES), 0);
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_int_equal(named(&r, "most")->len, GB_OUTPUT_BYTES);
    gb_result_done(&r);
    assert_int_equal(truncate("sandbox/most", GB_OUTPUT_BYTES - 10), 0);
    /* the sum counts, not only each */
    unit_write("sandbox/huge", "12345678901", 11);
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_int_equal(r.file_count, 2);
    assert_int_equal((named(&r, "huge")->skipped != NULL) + (named(&r, "most")->skipped != NULL), 1);
    gb_result_done(&r);
}

static void count_is_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < GB_OUTPUT_FILES + 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "sandbox/f%d", i);
        unit_write(name, "x", 1);
    }
    static const char *const outputs[] = {"f*"};
    struct gb_result r;
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_int_equal(r.file_count, GB_OUTPUT_FILES);
    assert_non_null(r.files[GB_OUTPUT_FILES - 1].skipped);
    assert_null(r.files[GB_OUTPUT_FILES - 2].skipped);
    gb_result_done(&r);
}

/* A tree deeper than any program needs ends the walk, not the stack. */
static void depth_is_bounded(void **state)
{
    (void)state;
    int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir("sandbox"), 0);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(mkdir("d", 0755) || chdir("d"), 0);
        unit_write("f", "x", 1);
    }
    assert_int_equal(fchdir(home), 0);
    close(home);
    static const char *const outputs[] = {"f", "d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/f",
                                          "d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/f"};
    struct gb_result r;
    assert_int_equal(collect(outputs, LEN(outputs), &r), 0);
    assert_null(named(&r, outputs[1])->skipped);
    assert_non_null(named(&r, outputs[2])->skipped);
    assert_non_null(named(&r, "f")->skipped);
    gb_result_done(&r);
}

/* Names that are each allowed can make a path that is too long together: it is left alone, and nothing is
 * cut. */
static void long_paths(void **state)
{
    (void)state;
    char part[251], path[1100] = "", pattern[] = "*/*/*/*/f*";
    memset(part, 'n', 250);
    part[250] = '\0';
    int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir("sandbox"), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mkdir(part, 0755) || chdir(part), 0);
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s/", part);
    }
    for (int len = 10; len < 30; len++) {
        char name[32];
        snprintf(name, sizeof(name), "f%0*d", len - 1, 0);
        unit_write(name, "x", 1);
        assert_true(len < 29 ||
                    mkdir("d0000000000000000000", 0755) == 0); /* a directory that just does not fit */
    }
    assert_int_equal(fchdir(home), 0);
    close(home);
    const char *const outputs[] = {pattern};
    struct gb_result r;
    assert_int_equal(collect(outputs, 1, &r), 0);
    assert_true(r.file_count > 5 && r.file_count < 20);
    for (size_t i = 0; i < r.file_count; i++) {
        assert_true(strlen(r.files[i].name) < 1023);
        assert_memory_equal(r.files[i].name, path, strlen(path));
        assert_null(r.files[i].skipped);
    }
    gb_result_done(&r);
}

static void no_scratch(void **state)
{
    (void)state;
    static const char *const outputs[] = {"*"};
    struct gb_spec spec = {.outputs = outputs, .output_count = 1};
    struct gb_box box = {.spec = &spec, .scratch_fd = -1};
    struct gb_result r = {0};
    struct gb_err err = {0};
    assert_int_equal(gb_outputs_collect(&box, &r, &err), 0); /* it never came to be: nothing to bring back */
    assert_int_equal(r.file_count, 0);
}

static void nothing_asked(void **state)
{
    (void)state;
    unit_write("sandbox/a", "x", 1);
    struct gb_result r;
    assert_int_equal(collect(NULL, 0, &r), 0);
    assert_int_equal(r.file_count, 0);
    gb_result_done(&r);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, make_sandbox, unit_leave_dir)
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(patterns),
            WITH(takes_what_matches),
            WITH(refuses_what_is_no_plain_file),
            WITH(the_directory_itself_may_be_a_link),
            WITH(size_is_bounded),
            WITH(count_is_bounded),
            WITH(depth_is_bounded),
            WITH(long_paths),
            cmocka_unit_test(no_scratch),
            WITH(nothing_asked),
    };
    return cmocka_run_group_tests_name("outputs", tests, NULL, NULL);
}
