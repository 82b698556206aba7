#include "broker/generation.h"

#include "base/auto.h"
#include "policy/policy.h"
#include "wire/payload.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define CONFIG_MOST ((off_t)16 << 20)

void generation_init(struct generations *g)
{
    for (size_t i = 0; i < GENERATIONS; i++)
        g->list[i] = (struct generation){.fd = -1};
}

int generation_map(int fd, const char **ret_text, size_t *ret_bytes, struct gb_err *err)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || size > CONFIG_MOST)
        return gb_err_set(err, GB_ERR_INTERNAL, 0,
                          "the configuration that was handed over is empty or too large");
    int r = gb_payload_check(fd, (uint64_t)size, err); /* sealed: it must not shrink under us */
    if (r)
        return r;
    const char *map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "map the configuration");
    *ret_text = map;
    *ret_bytes = (size_t)size;
    return 0;
}

static size_t index_of(const struct generations *g, const char *sha256)
{
    size_t i = 0;
    while (i < GENERATIONS && (g->list[i].fd < 0 || strcmp(g->list[i].sha256, sha256)))
        i++;
    return i;
}

int generation_add(struct generations *g, int fd, int64_t now_us, struct gb_err *err)
{
    struct generation fresh = {.fd = fd};
    const char *text = NULL;
    size_t bytes = 0;
    int r = generation_map(fd, &text, &bytes, err);
    if (r)
        return r;
    gb_policy_hash(text, bytes, fresh.sha256);
    munmap((void *)text, bytes);
    /* One that was there already (a reload that was taken back) becomes the newest again. */
    size_t place = index_of(g, fresh.sha256);
    if (place == GENERATIONS)
        place = GENERATIONS - 1;
    gb_auto_close(&g->list[place].fd);
    g->list[0].replaced_us = now_us;
    memmove(&g->list[1], &g->list[0], place * sizeof(g->list[0]));
    g->list[0] = fresh;
    return 0;
}

int generation_find(const struct generations *g, const char *sha256, int64_t now_us)
{
    const size_t i = index_of(g, sha256);
    const bool old = i > 0 && i < GENERATIONS && now_us - g->list[i].replaced_us > GENERATION_US;
    return i < GENERATIONS && !old ? g->list[i].fd : -1;
}
