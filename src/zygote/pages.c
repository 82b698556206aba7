/* Memory of a warm interpreter: most of what a box costs is page tables that are copied, filled and emptied.
 */
#include "zygote/beneath.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE      ((uintptr_t)4096)
#define GAP       (16 * PAGE) /* as much as is copied with what is around it */
#define RUN_LEAST (16 * PAGE) /* less is not worth it */
#define HUGE_PAGE ((uintptr_t)2 << 20)

#define STRETCH    ((size_t)96 << 10) /* less than what malloc() maps by itself */
#define ARENA      ((size_t)64 << 20)
#define CACHED     1032
#define HOLES_MOST 256

/* NOLINTBEGIN(performance-no-int-to-ptr): addresses come from /proc, as numbers */
/* fill_holes(): the same that zygote.py does for small objects, for the C library's own memory: whatever is
 * free between blocks in use is taken, for ever, and a stretch that nobody has used is left free. */
static PyObject *fill_holes(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    char *stretch = malloc(STRETCH);
    for (size_t size = STRETCH / 2; stretch && size >= 24; size -= size > 2048 ? size / 16 : 16)
        for (int i = 0; i < HOLES_MOST; i++) {
            char *block = malloc(size);
            if (block > stretch &&
                (size_t)(block - stretch) < ARENA) { /* behind it is nothing but new memory */
                if (size > CACHED) /* or it would be kept for the next of its size, one here, one there */
                    free(block);
                break;
            }
        }
    free(stretch);
    Py_RETURN_NONE;
}

/* --- the interpreter's own code on huge pages --- */

/* A fork does not copy the page tables of a program's code: the child faults on it anew, some 50 times, and
 * at its end gives a thousand pages back. Code on huge pages of the zygote's own is two entries, which are
 * copied, and no fault. Only whole huge pages are worth it, so what lies on one with code (constants) becomes
 * executable, too; nothing becomes writable. */

struct block {
    uintptr_t at;
    int rights;
};

/* The line of /proc/self/maps, if it is read-only memory of a file: its range and whether it is code. */
static bool read_line(const char *line, uintptr_t *ret_begin, uintptr_t *ret_end, bool *ret_code)
{
    unsigned long begin, end;
    char rights[5], path[2];
    if (sscanf(line, "%lx-%lx %4s %*x %*s %*u %1s", &begin, &end, rights, path) != 4 || path[0] != '/')
        return false;
    *ret_begin = begin;
    *ret_end = end;
    *ret_code = rights[2] == 'x';
    return rights[0] == 'r' && rights[1] == '-' && rights[3] == 'p';
}

/* Huge pages that lie within adjacent read-only mappings and have code on them. */
static size_t find_blocks(FILE *maps, struct block *blocks, size_t most)
{
    char line[1024];
    uintptr_t from = 0, until = 0; /* the mappings so far */
    uintptr_t code_from = 0, code_until = 0;
    size_t count = 0;
    while (true) {
        uintptr_t begin = 0, end = 0;
        bool code = false;
        const bool more = fgets(line, sizeof(line), maps) != NULL;
        const bool fits = more && read_line(line, &begin, &end, &code);
        if (!fits || begin != until) {
            for (uintptr_t at = (from + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); from && at + HUGE_PAGE <= until;
                 at += HUGE_PAGE)
                if (count < most && at < code_until && at + HUGE_PAGE > code_from)
                    blocks[count++] = (struct block){at, PROT_READ | PROT_EXEC};
            from = fits ? begin : 0;
            code_from = code_until = 0;
        }
        until = fits ? end : 0;
        if (fits && code) {
            code_from = code_from ? code_from : begin;
            code_until = end;
        }
        if (!more)
            return count;
    }
}

/* Is it on huge pages, and not on 512 small ones for each? The kernel says so only here. */
static bool is_huge(uintptr_t at, size_t bytes)
{
    char line[1024];
    bool here = false, huge = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    while (smaps && !huge && fgets(line, sizeof(line), smaps)) {
        unsigned long begin, end, kilobytes;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = begin <= at && at < end;
        else if (here && sscanf(line, "AnonHugePages: %lu kB", &kilobytes) == 1)
            huge = kilobytes >= bytes / 1024;
    }
    if (smaps)
        fclose(smaps);
    return huge;
}

/* Room for that many bytes on huge pages, or NULL. Around it is nothing that would have to be given back. */
static char *huge_room(size_t bytes)
{
    char *room = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    char *begin = (char *)(((uintptr_t)room + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    if (begin > room)
        munmap(room, (size_t)(begin - room));
    munmap(begin + bytes, HUGE_PAGE - (size_t)(begin - room));
    madvise(begin, bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += HUGE_PAGE)
        ((volatile char *)begin)[at] = 0;
    if (is_huge((uintptr_t)begin, bytes))
        return begin;
    munmap(begin, bytes);
    return NULL;
}

/* Puts a copy of what is there in its place. In between nothing is missing: the kernel moves it in one call.
 */
static bool move_block(const struct block *b)
{
    char *copy = huge_room(HUGE_PAGE);
    if (!copy)
        return false;
    memcpy(copy, (const void *)b->at, HUGE_PAGE);
    __builtin___clear_cache(copy, copy + HUGE_PAGE);
    const bool moved =
            !mprotect(copy, HUGE_PAGE, b->rights) &&
            mremap(copy, HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)b->at) != MAP_FAILED;
    if (!moved)
        munmap(copy, HUGE_PAGE);
    return moved;
}

/* huge_code(): how many huge pages there are now; none where the kernel has none to give. */
static PyObject *huge_code(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    struct block blocks[16];
    long moved = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return PyLong_FromLong(0);
    const size_t count = find_blocks(maps, blocks, sizeof(blocks) / sizeof(*blocks));
    fclose(maps);
    for (size_t i = 0; i < count; i++)
        moved += move_block(&blocks[i]);
    return PyLong_FromLong(moved);
}

/* --- its data in large pieces --- */

/* What a fork costs is, for the most part, one small page after the other: each is counted as used once more,
 * and once less at the end. Pages that lie in one huge page of the kernel's, wherever each of them is mapped,
 * are counted at once. So data is copied to huge pages, and from there moved back to where it was. */

struct run {
    uintptr_t at;
    size_t bytes;
};

/* Stretches of pages that are there, in a mapping that begins and ends so. */
static size_t find_runs(int pagemap, uintptr_t begin, uintptr_t end, struct run *runs, size_t most)
{
    size_t count = 0;
    for (uintptr_t at = begin; at < end; at += PAGE) {
        uint64_t entry = 0;
        if (pread(pagemap, &entry, sizeof(entry), (off_t)(at / PAGE * sizeof(entry))) != sizeof(entry))
            return 0;
        if (!(entry >> 63))
            continue;
        struct run *last = count ? &runs[count - 1] : NULL;
        if (last && at - (last->at + last->bytes) <= GAP)
            last->bytes = at + PAGE - last->at;
        else if (count < most)
            runs[count++] = (struct run){at, PAGE};
        else
            break;
    }
    return count;
}

/* One that a fork leaves out or empties (random numbers lie in such) would lose that by being replaced. */
static bool is_plain(const char *flags)
{
    static const char *const others[] = {" dc", " wf", " dp", " lo", " io", " ht", " gd"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strstr(flags, others[i]))
            return false;
    return true;
}

/* Of memory that is written to and not shared, what is large enough. Not the stacks: one is in use. */
static size_t read_smaps(FILE *smaps, int pagemap, struct run *runs, size_t most)
{
    char line[1024], rights[5];
    size_t count = 0;
    unsigned long first_byte, last_byte, begin = 0, end = 0;
    while (fgets(line, sizeof(line), smaps)) {
        if (sscanf(line, "%lx-%lx %4s", &first_byte, &last_byte, rights) == 3) {
            begin = first_byte; /* only now: other lines may begin with what could be a number */
            end = last_byte;
            if (strcmp(rights, "rw-p") || strstr(line, "[stack]") ||
                ((uintptr_t)line >= begin && (uintptr_t)line < end))
                end = begin;
            continue;
        }
        if (strncmp(line, "VmFlags:", strlen("VmFlags:")) || !is_plain(line))
            continue;
        const size_t first = count, all = first + find_runs(pagemap, begin, end, runs + first, most - first);
        for (size_t i = first; i < all; i++)
            if (runs[i].bytes >= RUN_LEAST)
                runs[count++] = runs[i];
    }
    return count;
}

static size_t find_data(struct run *runs, size_t most)
{
    FILE *smaps = fopen("/proc/self/smaps", "re");
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    const size_t count = smaps && pagemap >= 0 ? read_smaps(smaps, pagemap, runs, most) : 0;
    if (pagemap >= 0)
        close(pagemap);
    if (smaps)
        fclose(smaps);
    return count;
}

/* huge_data(): how many bytes lie on huge pages now; none where the kernel has none to give. Between the
 * first copy and the last move nothing is allocated: what is copied must not change meanwhile. The other
 * thread sleeps for ever. */
static PyObject *huge_data(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    static struct run runs[64];
    size_t bytes = 0, moved = 0;
    const size_t count = find_data(runs, sizeof(runs) / sizeof(*runs));
    for (size_t i = 0; i < count; i++)
        bytes += runs[i].bytes;
    bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    char *copy = bytes ? huge_room(bytes) : NULL;
    for (size_t i = 0; copy && i < count; i++) {
        memcpy(copy + moved, (const void *)runs[i].at, runs[i].bytes);
        if (mremap(copy + moved, runs[i].bytes, runs[i].bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   (void *)runs[i].at) == MAP_FAILED)
            break;
        moved += runs[i].bytes;
    }
    if (copy && moved < bytes)
        munmap(copy + moved, bytes - moved);
    return PyLong_FromSize_t(moved);
}

int gb_pages_add(PyObject *module)
{
    static PyMethodDef methods[] = {{"fill_holes", fill_holes, METH_NOARGS, "fill_holes()"},
                                    {"huge_data", huge_data, METH_NOARGS, "huge_data()"},
                                    {"huge_code", huge_code, METH_NOARGS, "huge_code()"},
                                    {0}};
    return PyModule_AddFunctions(module, methods);
}
/* NOLINTEND(performance-no-int-to-ptr) */
