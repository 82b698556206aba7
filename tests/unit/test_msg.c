/* Messages between our processes: shapes, directions, descriptors, and everything that must be refused. */
#include "unit.h"

#include "base/auto.h"
#include "wire/id.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

static struct gb_msg msg;
static int pair[2];

static int setup(void **state)
{
    (void)state;
    if (gb_msg_pair(pair))
        return -1;
    return fcntl(pair[0], F_SETFL, O_NONBLOCK) || fcntl(pair[1], F_SETFL, O_NONBLOCK);
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
    return 0;
}

static void round_trip(void **state)
{
    (void)state;
    struct gb_msg_append sent = {.kind = GB_RECORD_INTENT, .id = "ID", .principal = "me"};
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_APPEND, 7, &sent, "{}", 2, NULL, 0), 0);
    assert_int_equal(gb_msg_receive(pair[1], "front", "store", &msg), 0);
    const struct gb_msg_append *got = msg.body;
    assert_int_equal(msg.kind, GB_MSG_APPEND);
    assert_int_equal(msg.tag, 7);
    assert_string_equal(got->id, "ID");
    assert_string_equal(got->principal, "me");
    assert_int_equal(msg.tail_bytes, 2);
    assert_memory_equal(msg.tail, "{}", 2);
    assert_int_equal(msg.fd_count, 0);
    gb_msg_done(&msg);
    assert_int_equal(gb_msg_receive(pair[1], "front", "store", &msg), -EAGAIN);
}

/* The same bytes are no message to somebody else, nor from somebody else. */
static void direction(void **state)
{
    (void)state;
    struct gb_msg_find find = {.most = 1};
    static const char *const wrong[][2] = {
            {"launch", "store"}, {"store", "front"}, {"front", "launch"}, {"", ""}};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(gb_msg_send(pair[0], GB_MSG_FIND, 0, &find, NULL, 0, NULL, 0), 0);
        assert_int_equal(gb_msg_receive(pair[1], wrong[i][0], wrong[i][1], &msg), -EPROTO);
    }
}

static void sender_keeps_the_shape(void **state)
{
    (void)state;
    static char tail[70000];
    struct gb_msg_append append = {0};
    int fds[GB_MSG_FDS] = {0};
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_APPEND, 0, &append, tail, sizeof(tail), NULL, 0), -EINVAL);
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_STOP, 0, NULL, "x", 1, NULL, 0), -EINVAL);
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_STOP, 0, NULL, NULL, 0, fds, 1), -EINVAL);
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_CONFIG, 0, NULL, NULL, 0, NULL, 0), -EINVAL);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Descriptors arrive, close-on-exec; and of a message that is refused none stays open. */
static void descriptors(void **state)
{
    (void)state;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const int before = open_descriptors();
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_CONFIG, 0, NULL, NULL, 0, &zero, 1), 0);
    assert_int_equal(gb_msg_receive(pair[1], "serve", "front", &msg), 0);
    assert_int_equal(msg.fd_count, 1);
    assert_true(fcntl(msg.fd[0], F_GETFD) & FD_CLOEXEC);
    gb_msg_done(&msg);
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_CONFIG, 0, NULL, NULL, 0, &zero, 1), 0);
    assert_int_equal(gb_msg_receive(pair[1], "store", "front", &msg), -EPROTO);
    assert_int_equal(open_descriptors(), before);
    close(zero);
}

static void raw(const void *data, size_t len, int expected)
{
    assert_int_equal(send(pair[0], data, len, 0), len);
    assert_int_equal(gb_msg_receive(pair[1], "front", "launch", &msg), expected);
}

/* Bytes of every length, with a good header and without. */
static void garbage(void **state)
{
    (void)state;
    static char bytes[GB_MSG_BYTES_MOST + 1];
    raw("x", 1, -EPROTO);
    raw(bytes, 16, -EPROTO);
    raw(bytes, sizeof(struct gb_msg_run) + 16, -EPROTO);
    struct gb_msg_find find = {0};
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_FIND, 0, &find, NULL, 0, NULL, 0), 0);
    ssize_t n = recv(pair[1], bytes, sizeof(bytes), 0);
    for (ssize_t len = 1; len < n; len++) { /* truncated */
        assert_int_equal(send(pair[0], bytes, (size_t)len, 0), len);
        assert_int_equal(gb_msg_receive(pair[1], "front", "store", &msg), -EPROTO);
    }
    assert_int_equal(send(pair[0], bytes, (size_t)n + 1, 0), n + 1); /* a tail that it may not have */
    assert_int_equal(gb_msg_receive(pair[1], "front", "store", &msg), -EPROTO);
    bytes[4] = 99; /* a kind that there is not */
    assert_int_equal(send(pair[0], bytes, (size_t)n, 0), n);
    assert_int_equal(gb_msg_receive(pair[1], "front", "store", &msg), -EPROTO);
}

static void text_must_end(void **state)
{
    (void)state;
    struct gb_msg_find find = {0};
    memset(find.id, 'x', sizeof(find.id));
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_FIND, 0, &find, NULL, 0, NULL, 0), 0);
    assert_int_equal(gb_msg_receive(pair[1], "front", "store", &msg), -EPROTO);
}

/* A list inside a message: how many, codes, texts. */
static void refusals_are_whole(void **state)
{
    (void)state;
    static const struct gb_msg_tool_done good = {
            .denial_count = 1,
            .denials = {{.code = GB_DENIAL_SQL, .reason = "it writes", .hint = "read"}},
    };
    struct gb_msg_tool_done bad[6];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].denial_count = GB_DENIALS + 1;
    bad[1].denial_count = 2; /* the second has no code */
    memset(&bad[2].denials[0].code, 0xff, sizeof(bad[2].denials[0].code));
    bad[3].denials[GB_DENIALS - 1].code = GB_DENIAL_COUNT;
    memset(bad[4].denials[0].reason, 'x', sizeof(bad[4].denials[0].reason));
    memset(bad[5].denials[GB_DENIALS - 1].hint, 'x', sizeof(bad[5].denials[0].hint));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(gb_msg_send(pair[0], GB_MSG_TOOL_DONE, 0, &bad[i], NULL, 0, NULL, 0), 0);
        assert_int_equal(gb_msg_receive(pair[1], "broker", "front", &msg), -EPROTO);
    }
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_TOOL_DONE, 0, &good, NULL, 0, NULL, 0), 0);
    assert_int_equal(gb_msg_receive(pair[1], "broker", "front", &msg), 0);
    assert_memory_equal(msg.body, &good, sizeof(good));
    gb_msg_done(&msg);
}

/* The same for the boxes that shall wait. */
static void pools_are_whole(void **state)
{
    (void)state;
    static const struct gb_msg_pools good = {
            .count = 2,
            .want = {{.key = 1, .kind = GB_POOL_PLAIN, .low = 2, .high = 2},
                     {.key = 2, .kind = GB_POOL_PYTHON, .high = 4, .program = "python3", .preload = "json"}},
    };
    static struct gb_msg_pools bad[7];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].count = GB_POOLS + 1;
    bad[1].count = 3; /* the third has no key */
    bad[2].want[1].kind = GB_POOL_KINDS;
    bad[3].want[0].low = 3;
    bad[4].want[0].low = UINT32_MAX;
    memset(bad[5].want[1].program, 'x', sizeof(bad[5].want[1].program));
    memset(bad[6].want[GB_POOLS - 1].preload, 'x', sizeof(bad[6].want[0].preload));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(gb_msg_send(pair[0], GB_MSG_POOLS, 0, &bad[i], NULL, 0, NULL, 0), 0);
        assert_int_equal(gb_msg_receive(pair[1], "serve", "launch", &msg), -EPROTO);
    }
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_POOLS, 0, &good, NULL, 0, NULL, 0), 0);
    assert_int_equal(gb_msg_receive(pair[1], "front", "launch", &msg), -EPROTO); /* it is not the front's */
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_POOLS, 0, &good, NULL, 0, NULL, 0), 0);
    assert_int_equal(gb_msg_receive(pair[1], "serve", "launch", &msg), 0);
    assert_memory_equal(msg.body, &good, sizeof(good));
    gb_msg_done(&msg);
}

/* Every text of every message, one after the other, without its end. */
static void every_text_must_end(void **state)
{
    (void)state;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), fds[] = {zero, zero};
    struct gb_msg_tool tool = {0};
    char *texts[] = {tool.id, tool.policy, tool.tool};
    const size_t sizes[] = {sizeof(tool.id), sizeof(tool.policy), sizeof(tool.tool)};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        memset(&tool, 0, sizeof(tool));
        memset(texts[i], 'x', sizes[i]);
        assert_int_equal(gb_msg_send(pair[0], GB_MSG_TOOL, 0, &tool, NULL, 0, fds, 2), 0);
        assert_int_equal(gb_msg_receive(pair[1], "front", "broker", &msg), -EPROTO);
        texts[i][sizes[i] - 1] = '\0';
        assert_int_equal(gb_msg_send(pair[0], GB_MSG_TOOL, 0, &tool, NULL, 0, fds, 2), 0);
        assert_int_equal(gb_msg_receive(pair[1], "front", "broker", &msg), 0);
        gb_msg_done(&msg);
    }
    close(zero);
}

static void gone(void **state)
{
    (void)state;
    close(TAKE_FD(pair[0]));
    assert_int_equal(gb_msg_receive(pair[1], "front", "store", &msg), -EPIPE);
    assert_int_equal(gb_msg_send(pair[1], GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0), -EPIPE);
}

/* What was said before is still heard, even if the one who said it did not listen to the end. */
static void last_words(void **state)
{
    (void)state;
    assert_int_equal(gb_msg_send(pair[1], GB_MSG_STOP, 0, NULL, NULL, 0, NULL, 0), 0);
    assert_int_equal(gb_msg_send(pair[0], GB_MSG_READY, 0, NULL, NULL, 0, NULL, 0), 0);
    close(TAKE_FD(pair[0]));
    assert_int_equal(gb_msg_receive(pair[1], "front", "serve", &msg), 0);
    assert_int_equal(msg.kind, GB_MSG_READY);
    assert_int_equal(gb_msg_receive(pair[1], "front", "serve", &msg), -EPIPE);
}

/* Every row of the table can be sent by its sender and received by its receiver. */
static void every_row(void **state)
{
    (void)state;
    static const char body[GB_MSG_BYTES_MOST];
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), fds[GB_MSG_FDS];
    for (size_t i = 0; i < GB_MSG_FDS; i++)
        fds[i] = zero;
    for (int kind = 0; kind < GB_MSG_COUNT; kind++) {
        const struct gb_msg_shape *shape = &gb_msg_shapes[kind];
        char from[16], to[16];
        snprintf(from, sizeof(from), "%.*s", (int)strcspn(shape->from, " "), shape->from);
        snprintf(to, sizeof(to), "%.*s", (int)strcspn(shape->to, " "), shape->to);
        assert_int_equal(gb_msg_send(pair[0], (enum gb_msg_kind)kind, 1, body, body, shape->tail_most, fds,
                                     shape->fds_most),
                         0);
        assert_int_equal(gb_msg_receive(pair[1], from, to, &msg), 0);
        assert_int_equal(msg.kind, kind);
        assert_int_equal(msg.fd_count, shape->fds_most);
        gb_msg_done(&msg);
    }
    close(zero);
}

static void ids(void **state)
{
    (void)state;
    char a[GB_ID_CHARS + 1], b[GB_ID_CHARS + 1];
    gb_id_new(a);
    gb_id_new(b);
    assert_int_equal(strlen(a), GB_ID_CHARS);
    assert_true(gb_id_is_valid(a) && gb_id_is_valid(b));
    assert_string_not_equal(a, b);
    assert_true(strncmp(a, b, 9) <= 0); /* time first; the last of its ten digits may have moved on */
    static const char *const bad[] = {"",
                                      "0",
                                      "01KA3XG7Z0000000000000000",
                                      "01KA3XG7Z000000000000000000",
                                      "01KA3XG7Z0000000000000000U",
                                      "01ka3xg7z00000000000000000",
                                      "../../../../../../etc/passw"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(gb_id_is_valid(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test_setup_teardown(round_trip, setup, teardown),
            cmocka_unit_test_setup_teardown(direction, setup, teardown),
            cmocka_unit_test_setup_teardown(sender_keeps_the_shape, setup, teardown),
            cmocka_unit_test_setup_teardown(descriptors, setup, teardown),
            cmocka_unit_test_setup_teardown(garbage, setup, teardown),
            cmocka_unit_test_setup_teardown(text_must_end, setup, teardown),
            cmocka_unit_test_setup_teardown(refusals_are_whole, setup, teardown),
            cmocka_unit_test_setup_teardown(pools_are_whole, setup, teardown),
            cmocka_unit_test_setup_teardown(every_text_must_end, setup, teardown),
            cmocka_unit_test_setup_teardown(gone, setup, teardown),
            cmocka_unit_test_setup_teardown(last_words, setup, teardown),
            cmocka_unit_test_setup_teardown(every_row, setup, teardown),
            cmocka_unit_test(ids),
    };
    return cmocka_run_group_tests_name("msg", tests, NULL, NULL);
}
