#include "unit.h"

#include "base/auto.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void find_int(void **state)
{
    (void)state;
    static const char text[] = "oom 1\noom_kill 22\nmax 3\n\nnegative -4\nhigh max\nempty \nword abc\nhuge "
                               "99999999999999999999\nlast 9";
    static const struct {
        const char *key;
        int result;
        int64_t value;
    } rows[] = {
            {"oom", 0, 1},          {"oom_kill", 0, 22},  {"max", 0, 3},         {"negative", 0, -4},
            {"high", 0, INT64_MAX}, {"last", 0, 9},       {"empty", -EINVAL, 0}, {"word", -EINVAL, 0},
            {"huge", -EINVAL, 0},   {"oom_", -ENOENT, 0}, {"kill", -ENOENT, 0},  {"absent", -ENOENT, 0},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        int64_t value = -77;
        int r = gb_fd_find_int(text, rows[i].key, &value);
        if (r != rows[i].result || value != (r ? -77 : rows[i].value))
            fail_msg("%s: result %d, value %lld", rows[i].key, r, (long long)value);
    }
    int64_t value;
    assert_int_equal(gb_fd_find_int("", "a", &value), -ENOENT);
    assert_int_equal(gb_fd_find_int("a", "a", &value), -ENOENT);
    assert_int_equal(gb_fd_find_int("a 5", "a", &value), 0);
}

static void put_and_get(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(gb_fd_put(AT_FDCWD, "new", "x"), -ENOENT); /* control files exist; nothing is created */
    unit_write("control", "", 0);
    assert_int_equal(gb_fd_put(AT_FDCWD, "control", "hello"), 0);
    assert_int_equal(gb_fd_get(AT_FDCWD, "control", text, sizeof(text)), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(gb_fd_put(AT_FDCWD, ".", "x"), -EISDIR);
    assert_int_equal(symlink("control", "link"), 0);
    assert_int_equal(gb_fd_put(AT_FDCWD, "link", "x"), -ELOOP);
    assert_int_equal(gb_fd_get(AT_FDCWD, "control", text, sizeof(text)), 5);
}

static void put_beneath_a_descriptor(void **state)
{
    (void)state;
    assert_int_equal(mkdir("dir", 0755), 0);
    unit_write("dir/f", "", 0);
    int dir = open("dir", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    assert_int_equal(gb_fd_put(dir, "f", "1234"), 0);
    int64_t value = 0;
    assert_int_equal(gb_fd_get_int(dir, "f", &value), 0);
    assert_int_equal(value, 1234);
    close(dir);
}

static void get_sizes(void **state)
{
    (void)state;
    char text[8];
    unit_write("f", "1234567890", 10);
    assert_int_equal(gb_fd_get(AT_FDCWD, "f", text, sizeof(text)), 7);
    assert_string_equal(text, "1234567");
    assert_int_equal(gb_fd_get(AT_FDCWD, "f", text, 1), 0);
    assert_string_equal(text, "");
    unit_write("empty", "", 0);
    assert_int_equal(gb_fd_get(AT_FDCWD, "empty", text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(gb_fd_get(AT_FDCWD, "absent", text, sizeof(text)), -ENOENT);
    assert_int_equal(gb_fd_get(AT_FDCWD, ".", text, sizeof(text)), -EISDIR);
    assert_int_equal(gb_fd_get(-1, "f", text, sizeof(text)), -EBADF);
}

/* The kernel gives out a list in pieces of about a page, so that a read may bring less than was asked for in
 * the middle of it. */
static void get_a_long_list(void **state)
{
    (void)state;
    static char text[1 << 22];
    char again[2];
    ssize_t n = gb_fd_get(AT_FDCWD, "/proc/self/smaps", text, sizeof(text));
    assert_true(n > 2 * 4096);
    assert_non_null(strstr(text, "[stack]"));
    AUTO_FD fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, again, 1) == 1);
    ssize_t piece = read(fd, text, sizeof(text));
    assert_true(piece > 0 && piece + 1 < n); /* or this test could not fail */
}

static void get_int(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int result;
        int64_t value;
    } rows[] = {{"12\n", 0, 12},
                {"max\n", 0, INT64_MAX},
                {"-1", 0, -1},
                {"9223372036854775807\n", 0, INT64_MAX},
                {"9223372036854775808", -EINVAL, 0},
                {"", -EINVAL, 0},
                {"abc", -EINVAL, 0},
                {"7 8", 0, 7}};
    for (size_t i = 0; i < LEN(rows); i++) {
        int64_t value = -77;
        unit_write("n", rows[i].text, strlen(rows[i].text));
        assert_int_equal(gb_fd_get_int(AT_FDCWD, "n", &value), rows[i].result);
        assert_true(value == (rows[i].result ? -77 : rows[i].value));
    }
    int64_t value;
    assert_int_equal(gb_fd_get_int(AT_FDCWD, "absent", &value), -ENOENT);
}

/* More than a pipe holds: write_all goes on after short writes. */
static void write_all(void **state)
{
    (void)state;
    const size_t size = 300000;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        close(ends[0]);
        char *data = malloc(size);
        for (size_t i = 0; data && i < size; i++)
            data[i] = (char)(i % 251);
        int r = data ? gb_fd_write_all(ends[1], data, size) : -ENOMEM;
        free(data);
        _exit(r ? 1 : 0);
    }
    close(ends[1]);
    size_t at = 0;
    unsigned char piece[4099];
    for (ssize_t n; (n = read(ends[0], piece, sizeof(piece))) > 0;)
        for (ssize_t i = 0; i < n; i++, at++)
            if (piece[i] != at % 251)
                fail_msg("byte %zu is wrong", at);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(at, size);
    close(ends[0]);
    assert_int_equal(gb_fd_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(gb_fd_write_all(-1, "x", 0), 0);
}

struct names {
    unsigned seen, stop_at;
};

static int count_name(void *context, const char *name)
{
    struct names *n = context;
    assert_true(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
    return ++n->seen == n->stop_at ? -ECANCELED : 0;
}

/* More entries than one buffer of the kernel holds; and a caller that has seen enough. */
static void each(void **state)
{
    (void)state;
    assert_int_equal(mkdir("many", 0755), 0);
    for (int i = 0; i < 500; i++) {
        char name[64];
        snprintf(name, sizeof(name), "many/.a-name-that-is-not-very-short-%d", i);
        unit_write(name, "", 0);
    }
    int dir = open("many", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    struct names n = {0};
    assert_int_equal(gb_fd_each(dir, count_name, &n), 0);
    assert_int_equal(n.seen, 500);
    assert_int_equal(lseek(dir, 0, SEEK_SET), 0);
    n = (struct names){.stop_at = 7};
    assert_int_equal(gb_fd_each(dir, count_name, &n), -ECANCELED);
    assert_int_equal(n.seen, 7);
    close(dir);
    assert_int_equal(gb_fd_each(-1, count_name, &n), -EBADF);
}

static void copy(void **state)
{
    (void)state;
    const size_t size = 3000000;
    char *data = malloc(size), *back = malloc(size);
    assert_true(data && back);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i % 249);
    unit_write("from", data, size);
    int in = open("from", O_RDONLY | O_CLOEXEC), out = open("to", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(gb_fd_copy(out, in), size);
    assert_int_equal(gb_fd_copy(out, in), 0); /* at the end */
    assert_int_equal(pread(out, back, size, 0), size);
    assert_memory_equal(data, back, size);
    assert_int_equal(gb_fd_copy(-1, in), -EBADF);
    close(in);
    close(out);
    free(data);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(find_int),
            cmocka_unit_test(put_and_get),
            cmocka_unit_test(put_beneath_a_descriptor),
            cmocka_unit_test(get_sizes),
            cmocka_unit_test(get_a_long_list),
            cmocka_unit_test(get_int),
            cmocka_unit_test(write_all),
            cmocka_unit_test(copy),
            cmocka_unit_test(each),
    };
    return cmocka_run_group_tests_name("fd", tests, unit_enter_dir, unit_leave_dir);
}
