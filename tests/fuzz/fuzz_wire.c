/* What crosses the privilege boundary: payloads and messages. The first byte says which: 'p' for a payload,
 * else one byte for the sender, one for the receiver, one for the number of descriptors, and the message.
 * Whatever is accepted must be what the launcher, which does not look twice, takes it for. */
#include "fuzz.h"

#include "base/text.h"
#include "wire/msg.h"
#include "wire/payload.h"

#include <stdbool.h>
#include <unistd.h>

/* --- payloads --- */

static void check_inside(const char *p, size_t len, const char *data, size_t size)
{
    CHECK(p >= data && p <= data + size && len <= size - (size_t)(p - data));
}

static void check_text(const char *text, const char *data, size_t size)
{
    check_inside(text, 1, data, size);
    check_inside(text, strnlen(text, size - (size_t)(text - data)) + 1, data, size);
}

static void check_list(const char *const *list, size_t count, const char *data, size_t size)
{
    CHECK(count <= GB_PAYLOAD_STRINGS && !list[count]);
    for (size_t i = 0; i < count; i++)
        check_text(list[i], data, size);
}

static void check_files(const struct gb_payload *p, const char *data, size_t size)
{
    CHECK(p->file_count <= GB_PAYLOAD_FILES);
    for (size_t i = 0; i < p->file_count; i++) {
        const struct gb_file *f = &p->files[i];
        check_text(f->name, data, size);
        CHECK(gb_text_is_relative_name(f->name) && f->fd == -1);
        CHECK((f->data == NULL) == (p->skipped[i] != NULL));
        if (f->data) {
            check_inside(f->data, f->len, data, size);
            CHECK(f->mode == 0644 || f->mode == 0755);
        } else {
            check_text(p->skipped[i], data, size);
        }
    }
}

static void write_again(const struct gb_payload *p, struct gb_buf *b)
{
    for (size_t i = 0; i < p->argc; i++)
        gb_payload_add_text(b, GB_ITEM_ARG, p->argv[i]);
    for (size_t i = 0; i < p->envc; i++)
        gb_payload_add_text(b, GB_ITEM_ENV, p->env[i]);
    for (size_t i = 0; i < p->output_count; i++)
        gb_payload_add_text(b, GB_ITEM_OUTPUT, p->outputs[i]);
    for (size_t i = 0; i < p->file_count; i++) {
        const struct gb_file *f = &p->files[i];
        gb_payload_add_text(b, GB_ITEM_NAME, f->name);
        if (f->data)
            gb_payload_add(b, f->mode == 0755 ? GB_ITEM_PROGRAM : GB_ITEM_DATA, f->data, f->len);
        else
            gb_payload_add_text(b, GB_ITEM_SKIPPED, p->skipped[i]);
    }
}

static void check_same(const struct gb_payload *a, const struct gb_payload *b)
{
    CHECK(a->argc == b->argc && a->envc == b->envc && a->output_count == b->output_count &&
          a->file_count == b->file_count);
    for (size_t i = 0; i < a->argc; i++)
        CHECK(!strcmp(a->argv[i], b->argv[i]));
    for (size_t i = 0; i < a->envc; i++)
        CHECK(!strcmp(a->env[i], b->env[i]));
    for (size_t i = 0; i < a->output_count; i++)
        CHECK(!strcmp(a->outputs[i], b->outputs[i]));
    for (size_t i = 0; i < a->file_count; i++) {
        CHECK(!strcmp(a->files[i].name, b->files[i].name) && a->files[i].len == b->files[i].len);
        CHECK(!a->files[i].len || !memcmp(a->files[i].data, b->files[i].data, a->files[i].len));
    }
}

static void fuzz_payload(const char *data, size_t size)
{
    static struct gb_payload first, second;
    struct gb_err err = {0};
    if (gb_payload_read(data, size, &first, &err)) {
        CHECK(err.code == GB_ERR_USAGE && *err.text);
        return;
    }
    check_list(first.argv, first.argc, data, size);
    check_list(first.env, first.envc, data, size);
    check_list(first.outputs, first.output_count, data, size);
    check_files(&first, data, size);
    CHECK(!first.argc || *first.argv[0]);
    for (size_t i = 0; i < first.envc; i++)
        CHECK(gb_spec_is_env_name(first.env[i], strcspn(first.env[i], "=")) && strchr(first.env[i], '='));
    for (size_t i = 0; i < first.output_count; i++)
        CHECK(gb_text_is_relative_name(first.outputs[i]));
    /* Written again it has as many bytes, and through a descriptor it reads the same. */
    struct gb_buf b = {.max = GB_PAYLOAD_BYTES};
    write_again(&first, &b);
    CHECK(b.len == size && !b.failed);
    int fd = gb_payload_seal(&b);
    CHECK(fd >= 0 && !gb_payload_open(fd, b.len, &second, &err));
    check_same(&first, &second);
    gb_payload_done(&second);
    CHECK(gb_payload_open(fd, b.len + 1, &second, &err) && ftruncate(fd, (off_t)b.len + 1));
    close(fd);
    gb_buf_done(&b);
}

/* --- messages --- */

static const char *const names[] = {"serve", "front", "launch",       "store", "broker",
                                    "",      "serv",  "front launch", "keeper"};
#define NAMES (sizeof(names) / sizeof(*names))

static bool has_word(const char *list, const char *word)
{
    const char *at = strstr(list, word);
    const size_t len = strlen(word);
    return len && at && (at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]);
}

static void fuzz_message(const uint8_t *data, size_t size)
{
    static struct gb_msg msg, again;
    static int pair[2];
    const char *from = names[data[0] % NAMES], *to = names[data[1] % NAMES];
    const unsigned fds = data[2] % (GB_MSG_FDS + 2);
    data += 3;
    size -= 3;
    if (size > sizeof(msg.bytes))
        return;
    memset(msg.bytes, 0x5a,
           sizeof(msg.bytes)); /* what lies behind is not zero, as it would be after a longer one */
    if (size)
        memcpy(msg.bytes, data, size);
    if (gb_msg_check(from, to, &msg, size, fds))
        return;
    CHECK(msg.kind < GB_MSG_COUNT);
    const struct gb_msg_shape *shape = &gb_msg_shapes[msg.kind];
    CHECK(has_word(shape->from, from) && has_word(shape->to, to) && !strchr(from, ' ') && !strchr(to, ' '));
    CHECK(fds >= shape->fds_least && fds <= shape->fds_most);
    CHECK((uintptr_t)msg.body % 8 == 0 && msg.tail_bytes <= shape->tail_most);
    check_inside(msg.body, shape->body_bytes, msg.bytes, size);
    check_inside(msg.tail, msg.tail_bytes, msg.bytes, size);
    CHECK((const char *)msg.body + shape->body_bytes == msg.tail &&
          msg.tail + msg.tail_bytes == msg.bytes + size);
    if (shape->fds_least)
        return;
    if (!pair[1])
        CHECK(!gb_msg_pair(pair));
    CHECK(!gb_msg_send(pair[0], msg.kind, msg.tag, msg.body, msg.tail, msg.tail_bytes, NULL, 0));
    CHECK(!gb_msg_receive(pair[1], from, to, &again));
    CHECK(again.kind == msg.kind && again.tag == msg.tag && again.tail_bytes == msg.tail_bytes &&
          !again.fd_count);
    CHECK(!memcmp(again.bytes, msg.bytes, size));
    gb_msg_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == 'p') {
        char *copy = fuzz_copy(data + 1, size - 1);
        fuzz_payload(copy, size - 1);
        free(copy);
    } else if (size >= 3) {
        fuzz_message(data, size);
    }
    return 0;
}
