#include "wire/payload.h"

#include "base/auto.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What precedes each item. Items are not aligned, so it is copied, never pointed at. */
struct head {
    uint32_t kind, bytes;
};

#define SHORT ((uint64_t)16384) /* below that, to copy costs less than to map */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

/* --- writing --- */

void gb_payload_add(struct gb_buf *b, enum gb_item_kind kind, const void *data, size_t len)
{
    const struct head head = {(uint32_t)kind, (uint32_t)len};
    if (len > UINT32_MAX) {
        b->failed = true;
        return;
    }
    gb_buf_add(b, &head, sizeof(head));
    if (len)
        gb_buf_add(b, data, len);
}

void gb_payload_add_text(struct gb_buf *b, enum gb_item_kind kind, const char *text)
{
    gb_payload_add(b, kind, text, strlen(text) + 1);
}

int gb_payload_seal(const struct gb_buf *b)
{
    if (b->failed)
        return -ENOMEM;
    if (gb_buf_truncated(b))
        return -E2BIG;
    AUTO_FD fd = memfd_create("glovebox-payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : gb_fd_write_all(fd, b->data, b->len);
    if (!r && fcntl(fd, F_ADD_SEALS, SEALS))
        r = -errno;
    return r ? r : TAKE_FD(fd);
}

/* --- reading --- */

struct reader {
    struct gb_payload *p;
    struct gb_err *err;
    size_t index;     /* of the item, for messages */
    const char *name; /* a file whose bytes must be the next item, or NULL */
};

static int refuse(const struct reader *r, const char *what)
{
    return gb_err_set(r->err, GB_ERR_USAGE, 0, "payload: item %zu: %s", r->index, what);
}

static bool is_text(const char *data, size_t len)
{
    return len > 0 && memchr(data, '\0', len) == data + len - 1;
}

static int keep(const struct reader *r, const char **list, size_t *count, const char *text)
{
    if (*count >= GB_PAYLOAD_STRINGS)
        return refuse(r, "there are too many of its kind");
    list[(*count)++] = text;
    return 0;
}

static int take_arg(struct reader *r, const char *text, size_t len)
{
    (void)len;
    if (!r->p->argc && !*text)
        return refuse(r, "the program's name is empty");
    return keep(r, r->p->argv, &r->p->argc, text);
}

static int take_env(struct reader *r, const char *text, size_t len)
{
    (void)len;
    const char *equals = strchr(text, '=');
    if (!equals || !gb_spec_is_env_name(text, (size_t)(equals - text)))
        return refuse(r,
                      "a variable of the environment is NAME=VALUE: letters, digits and _, no digit first");
    return keep(r, r->p->env, &r->p->envc, text);
}

static int take_output(struct reader *r, const char *text, size_t len)
{
    (void)len;
    if (!gb_text_is_relative_name(text))
        return refuse(r, "an output must be a name or glob relative to " GB_WORKDIR ", without '..'");
    return keep(r, r->p->outputs, &r->p->output_count, text);
}

static int take_name(struct reader *r, const char *text, size_t len)
{
    (void)len;
    if (!gb_text_is_relative_name(text))
        return refuse(r, "a file's name must be relative to " GB_WORKDIR ", without '..'");
    if (r->p->file_count >= GB_PAYLOAD_FILES)
        return refuse(r, "there are too many files");
    r->name = text;
    return 0;
}

static int add_file(struct reader *r, const char *data, size_t len, mode_t mode, const char *skipped)
{
    struct gb_payload *p = r->p;
    p->skipped[p->file_count] = skipped;
    p->files[p->file_count++] =
            (struct gb_file){.name = r->name, .data = data, .len = len, .fd = -1, .mode = mode};
    r->name = NULL;
    return 0;
}

static int take_data(struct reader *r, const char *data, size_t len)
{
    return add_file(r, data, len, 0644, NULL);
}

static int take_program(struct reader *r, const char *data, size_t len)
{
    return add_file(r, data, len, 0755, NULL);
}

static int take_skipped(struct reader *r, const char *text, size_t len)
{
    (void)len;
    return add_file(r, NULL, 0, 0, text);
}

/* Each kind: whether it is text, whether it belongs to the name before it, and what becomes of it. */
static const struct {
    bool text, after_name;
    int (*take)(struct reader *r, const char *data, size_t len);
} kinds[GB_ITEM_KINDS] = {
        [GB_ITEM_ARG] = {true, false, take_arg},        [GB_ITEM_ENV] = {true, false, take_env},
        [GB_ITEM_OUTPUT] = {true, false, take_output},  [GB_ITEM_NAME] = {true, false, take_name},
        [GB_ITEM_DATA] = {false, true, take_data},      [GB_ITEM_PROGRAM] = {false, true, take_program},
        [GB_ITEM_SKIPPED] = {true, true, take_skipped},
};

static int take_item(struct reader *r, uint32_t kind, const char *data, size_t len)
{
    if (kind >= GB_ITEM_KINDS || !kinds[kind].take)
        return refuse(r, "there is no such kind");
    if (kinds[kind].after_name != (r->name != NULL))
        return refuse(r, r->name ? "a file's name must be followed by its bytes" : "bytes of no file");
    if (kinds[kind].text && !is_text(data, len))
        return refuse(r, "text must end with its only NUL");
    return kinds[kind].take(r, data, len);
}

/* Field by field: the arrays are long, and most of them stay unused. */
static void clear(struct gb_payload *p)
{
    p->map = p->copy = NULL;
    p->bytes = p->argc = p->envc = p->output_count = p->file_count = 0;
}

int gb_payload_read(const char *data, size_t bytes, struct gb_payload *ret, struct gb_err *err)
{
    struct reader r = {.p = ret, .err = err};
    clear(ret);
    ret->bytes = bytes;
    for (size_t at = 0; at < bytes; r.index++) {
        struct head head;
        if (bytes - at < sizeof(head))
            return refuse(&r, "it is cut off");
        memcpy(&head, data + at, sizeof(head));
        at += sizeof(head);
        if (head.bytes > bytes - at)
            return refuse(&r, "it is longer than what is left");
        int error = take_item(&r, head.kind, data + at, head.bytes);
        if (error)
            return error;
        at += head.bytes;
    }
    if (r.name)
        return refuse(&r, "a file's name must be followed by its bytes");
    ret->argv[ret->argc] = ret->env[ret->envc] = ret->outputs[ret->output_count] = NULL;
    return 0;
}

int gb_payload_check(int fd, uint64_t bytes, struct gb_err *err)
{
    if (bytes > GB_PAYLOAD_BYTES)
        return gb_err_set(err, GB_ERR_USAGE, 0, "payload: more than %zu bytes", GB_PAYLOAD_BYTES);
    /* Only a memfd (or a file of hugetlbfs) answers; a path of some disk does not. */
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return gb_err_set(err, GB_ERR_USAGE, 0,
                          "payload: it is not a memfd that is sealed against every change");
    if (lseek(fd, 0, SEEK_END) != (off_t)bytes)
        return gb_err_set(err, GB_ERR_USAGE, 0, "payload: its size is not what was announced");
    return 0;
}

int gb_payload_open(int fd, uint64_t bytes, struct gb_payload *ret, struct gb_err *err)
{
    clear(ret);
    int r = gb_payload_check(fd, bytes, err);
    if (r || !bytes)
        return r ? r : gb_payload_read("", 0, ret, err);
    char *copy = bytes <= SHORT ? malloc(bytes) : NULL;
    if (copy && pread(fd, copy, bytes, 0) == (ssize_t)bytes) {
        r = gb_payload_read(copy, bytes, ret, err);
        if (r)
            free(copy);
        else
            ret->copy = copy;
        return r;
    }
    free(copy);
    char *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return gb_err_set(err, GB_ERR_BUSY, errno, "map the payload");
    r = gb_payload_read(map, bytes, ret, err);
    if (r)
        munmap(map, bytes);
    else
        ret->map = map;
    return r;
}

void gb_payload_done(struct gb_payload *p)
{
    if (p->map)
        munmap((void *)p->map, p->bytes);
    free(p->copy);
    clear(p);
}
