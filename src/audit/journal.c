#include "audit/journal.h"

#include "audit/chain.h"
#include "base/auto.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x316a4247U /* "GBj1" */
#define ALIGN 8

/* Behind it: id, principal, tool and body, each with a NUL; zeros up to a multiple of ALIGN. As this machine
 * writes numbers: the file is for the next start on the same host. */
struct head {
    uint32_t magic, bytes;
    int64_t seq, time_us, cpu_us, day;
    uint32_t kind, calls;
    uint32_t id_bytes, principal_bytes, tool_bytes, body_bytes; /* without their NULs */
    uint8_t hash[GB_HASH_BYTES];
};
_Static_assert(sizeof(struct head) % ALIGN == 0 && sizeof(struct head) >= GB_JOURNAL_LEAST, "entries");

static size_t size_of(const struct head *h)
{
    const size_t bytes = sizeof(*h) + h->id_bytes + h->principal_bytes + h->tool_bytes + h->body_bytes + 4;
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

int gb_journal_open(const char *dir, bool writable, struct gb_journal *ret_journal, struct gb_err *err)
{
    AUTO_FD dir_fd = gb_fd_open_dir(AT_FDCWD, dir);
    AUTO_FREE char *data = malloc(GB_JOURNAL_BYTES);
    if (dir_fd < 0 || !data)
        return gb_err_set(err, GB_ERR_AUDIT, dir_fd < 0 ? -dir_fd : ENOMEM, "open the audit's directory");
    int fd =
            writable ? openat(dir_fd, GB_AUDIT_JOURNAL, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (writable && fd < 0)
        return gb_err_set(err, GB_ERR_AUDIT, errno, "open %s/" GB_AUDIT_JOURNAL, dir);
    *ret_journal = (struct gb_journal){.fd = fd, .dir_fd = TAKE_FD(dir_fd), .data = TAKE_PTR(data)};
    return 0;
}

static ssize_t read_all(int fd, char *data, size_t size)
{
    size_t have = 0;
    while (have < size) {
        ssize_t n = pread(fd, data + have, size - have, (off_t)have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int gb_journal_read(struct gb_journal *j, struct gb_err *err)
{
    AUTO_FD own = j->fd < 0 ? openat(j->dir_fd, GB_AUDIT_JOURNAL, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    j->settled = j->kept = j->len = 0;
    if (j->fd < 0 && own < 0 && errno == ENOENT)
        return 0;
    ssize_t n = j->fd < 0 && own < 0 ? -errno : read_all(j->fd < 0 ? own : j->fd, j->data, GB_JOURNAL_BYTES);
    if (n < 0)
        return gb_err_set(err, GB_ERR_AUDIT, (int)-n, "read " GB_AUDIT_JOURNAL);
    j->len = (size_t)n;
    return 0;
}

/* Is there an entry of ours, as far as lengths tell? */
static bool has_shape(const char *data, size_t len, struct head *ret_head)
{
    struct head *h = ret_head;
    if (len < sizeof(*h))
        return false;
    memcpy(h, data, sizeof(*h));
    if (h->magic != MAGIC || h->id_bytes >= GB_ID_BYTES || h->principal_bytes >= GB_PRINCIPAL ||
        h->tool_bytes >= GB_TOOL_NAME || h->body_bytes > GB_AUDIT_BODY || h->bytes != size_of(h) ||
        h->bytes > len || !h->kind || h->kind >= GB_RECORD_KINDS)
        return false;
    const size_t texts[] = {h->id_bytes, h->principal_bytes, h->tool_bytes, h->body_bytes};
    const char *at = data + sizeof(*h);
    for (size_t i = 0; i < ARRAY_LEN(texts); at += texts[i++] + 1)
        if (strnlen(at, texts[i] + 1) != texts[i])
            return false;
    return true;
}

void gb_journal_at(const struct gb_journal *j, size_t at, struct gb_journal_entry *ret_entry)
{
    struct head h;
    memcpy(&h, j->data + at, sizeof(h));
    const char *id = j->data + at + sizeof(h), *principal = id + h.id_bytes + 1;
    const char *tool = principal + h.principal_bytes + 1;
    *ret_entry = (struct gb_journal_entry){.record = {.seq = h.seq,
                                                      .time_us = h.time_us,
                                                      .kind = h.kind,
                                                      .id = id,
                                                      .principal = principal,
                                                      .body = tool + h.tool_bytes + 1,
                                                      .body_bytes = h.body_bytes},
                                           .usage = {.day = h.day,
                                                     .principal = principal,
                                                     .tool = tool,
                                                     .calls = h.calls,
                                                     .cpu_us = h.cpu_us},
                                           .bytes = h.bytes};
    memcpy(ret_entry->record.hash, h.hash, GB_HASH_BYTES);
}

static bool follows(const struct gb_journal *j, size_t at, const struct gb_chain_point *before)
{
    struct gb_journal_entry e;
    uint8_t hash[GB_HASH_BYTES];
    gb_journal_at(j, at, &e);
    gb_chain_hash(before->hash, &e.record, hash);
    return e.record.seq == before->seq + 1 && !memcmp(hash, e.record.hash, GB_HASH_BYTES);
}

void gb_journal_follow(struct gb_journal *j, const struct gb_chain_point *head)
{
    struct head h;
    size_t at = 0;
    /* What is in the tables comes first, unless the file was begun anew. */
    while (has_shape(j->data + at, j->len - at, &h) && h.seq <= head->seq)
        at += h.bytes;
    j->end = *head;
    j->settled = at;
    for (; has_shape(j->data + at, j->len - at, &h) && follows(j, at, &j->end); at += h.bytes) {
        j->end.seq = h.seq;
        memcpy(j->end.hash, h.hash, GB_HASH_BYTES);
    }
    j->kept = j->len = at;
    j->kept_end = j->end;
    j->known = true;
    gb_journal_settle(j, j->settled);
}

static void put(char **at, const char *text, size_t len)
{
    memcpy(*at, text, len);
    (*at)[len] = '\0';
    *at += len + 1;
}

int gb_journal_add(struct gb_journal *j, const struct gb_audit_record *record,
                   const struct gb_audit_usage *usage)
{
    struct head h = {.magic = MAGIC,
                     .seq = record->seq,
                     .time_us = record->time_us,
                     .kind = record->kind,
                     .id_bytes = (uint32_t)strlen(record->id),
                     .principal_bytes = (uint32_t)strlen(record->principal),
                     .body_bytes = (uint32_t)record->body_bytes};
    const char *tool = usage ? usage->tool : "";
    if (usage) {
        h.day = usage->day;
        h.calls = (uint32_t)usage->calls;
        h.cpu_us = usage->cpu_us;
        h.tool_bytes = (uint32_t)strlen(tool);
    }
    h.bytes = (uint32_t)size_of(&h);
    if (h.bytes > GB_JOURNAL_BYTES - j->len)
        return -ENOBUFS;
    memcpy(h.hash, record->hash, GB_HASH_BYTES);
    char *start = j->data + j->len, *at = start + sizeof(h);
    memcpy(start, &h, sizeof(h));
    put(&at, record->id, h.id_bytes);
    put(&at, record->principal, h.principal_bytes);
    put(&at, tool, h.tool_bytes);
    put(&at, record->body, h.body_bytes);
    memset(at, 0, h.bytes - (size_t)(at - start));
    j->len += h.bytes;
    j->end.seq = h.seq;
    memcpy(j->end.hash, h.hash, GB_HASH_BYTES);
    return 0;
}

void gb_journal_forget(struct gb_journal *j)
{
    j->len = j->kept;
    j->end = j->kept_end;
}

int gb_journal_keep(struct gb_journal *j)
{
    size_t done = j->kept;
    int r = 0;
    while (!r && done < j->len) {
        ssize_t n = pwrite(j->fd, j->data + done, j->len - done, (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            r = n == 0 ? -ENOSPC : -errno;
    }
    if (r) {
        /* Nobody is told that it was stored, so it must not come back after a kill. */
        static const uint32_t nothing;
        if (done > j->kept)
            (void)!pwrite(j->fd, &nothing, sizeof(nothing), (off_t)j->kept);
        gb_journal_forget(j);
        return r == -EDQUOT ? -ENOSPC : r;
    }
    j->kept = j->len;
    j->kept_end = j->end;
    return 0;
}

void gb_journal_settle(struct gb_journal *j, size_t to)
{
    j->settled = to;
    if (j->settled != j->len)
        return;
    /* Given back, so that whether there is room is found out when a record comes, not when it was promised.
     */
    if (j->fd >= 0 && j->len)
        (void)!ftruncate(j->fd, 0);
    j->settled = j->kept = j->len = 0;
}

void gb_journal_close(struct gb_journal *j)
{
    if (j->fd >= 0 && j->known && !j->kept)
        unlinkat(j->dir_fd, GB_AUDIT_JOURNAL, 0);
    gb_auto_close(&j->fd);
    gb_auto_close(&j->dir_fd);
    free(j->data);
    *j = (struct gb_journal){.fd = -1, .dir_fd = -1};
}
