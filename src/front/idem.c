#include "front/idem.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES    1024
#define BYTES_MOST ((size_t)64 << 20)
#define REPLY_MOST ((size_t)4 << 20)
#define KEEP_US    ((int64_t)3600 * 1000000)
#define KEY_BYTES  256

struct idem_entry {
    char principal[64], key[KEY_BYTES], what[80];
    int64_t expires_us; /* 0: free; INT64_MAX: running */
    struct gb_buf reply;
};

struct idem {
    struct idem_entry entries[ENTRIES];
    size_t bytes;
};

struct idem *idem_new(void)
{
    return calloc(1, sizeof(struct idem));
}

void idem_drop(struct idem *table, struct idem_entry *entry)
{
    table->bytes -= entry->reply.len;
    gb_buf_done(&entry->reply);
    *entry = (struct idem_entry){0};
}

static bool is_running(const struct idem_entry *e)
{
    return e->expires_us == INT64_MAX;
}

/* The stored reply that would expire first makes room: of the same principal if he has one, so that nobody
 * pushes out what others will ask for. */
static bool drop_oldest(struct idem *table, const char *principal)
{
    struct idem_entry *oldest = NULL;
    bool own = false;
    for (size_t i = 0; i < ENTRIES; i++) {
        struct idem_entry *e = &table->entries[i];
        const bool mine = !strcmp(e->principal, principal);
        if (!e->expires_us || is_running(e) || (own && !mine))
            continue;
        if (!oldest || (mine && !own) || e->expires_us < oldest->expires_us)
            oldest = e;
        own = own || mine;
    }
    if (oldest)
        idem_drop(table, oldest);
    return oldest != NULL;
}

static struct idem_entry *find_free(struct idem *table, const char *principal)
{
    do {
        for (size_t i = 0; i < ENTRIES; i++)
            if (!table->entries[i].expires_us)
                return &table->entries[i];
    } while (drop_oldest(table, principal));
    return NULL;
}

static bool is_key(struct gb_slice key)
{
    bool good = key.len > 0 && key.len < KEY_BYTES;
    for (size_t i = 0; good && i < key.len; i++)
        good = key.data[i] > 0x20 && key.data[i] < 0x7f;
    return good;
}

int idem_claim(struct idem *table, const char *principal, struct gb_slice key, const char *what,
               struct idem_entry **ret_entry, const struct gb_buf **ret_reply, struct gb_err *err)
{
    const int64_t now = gb_clock_us();
    if (!is_key(key))
        return gb_err_set(err, GB_ERR_USAGE, 0, "Idempotency-Key: 1 to %d visible ASCII characters",
                          KEY_BYTES - 1);
    for (size_t i = 0; i < ENTRIES; i++) {
        struct idem_entry *e = &table->entries[i];
        if (e->expires_us && e->expires_us < now)
            idem_drop(table, e);
        if (!e->expires_us || strcmp(e->principal, principal) || !gb_slice_is(key, e->key))
            continue;
        if (strcmp(e->what, what))
            return gb_err_set(err, GB_ERR_USAGE, 0, "Idempotency-Key: was used with another request");
        if (is_running(e))
            return gb_err_set(err, GB_ERR_CONFLICT, 0, "the first call with this Idempotency-Key is running");
        *ret_reply = &e->reply;
        return 1;
    }
    struct idem_entry *e = find_free(table, principal);
    if (!e)
        return gb_err_set(err, GB_ERR_BUSY, 0, "too many calls with an Idempotency-Key at once");
    *e = (struct idem_entry){.expires_us = INT64_MAX};
    snprintf(e->principal, sizeof(e->principal), "%s", principal);
    snprintf(e->key, sizeof(e->key), "%.*s", (int)key.len, key.data);
    snprintf(e->what, sizeof(e->what), "%s", what);
    *ret_entry = e;
    return 0;
}

void idem_keep(struct idem *table, struct idem_entry *entry, const char *reply, size_t len)
{
    while (len <= REPLY_MOST && table->bytes + len > BYTES_MOST && drop_oldest(table, entry->principal))
        ;
    entry->reply.max = len;
    if (len > REPLY_MOST || gb_buf_add(&entry->reply, reply, len) != len) {
        entry->reply.len = 0;
        idem_drop(table, entry);
        return;
    }
    table->bytes += len;
    entry->expires_us = gb_clock_us() + KEEP_US;
}
