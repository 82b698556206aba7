/* Memory of a warm interpreter: most of what a box costs is page tables that are copied, filled and emptied.
 */
#include "zygote/beneath.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE      ((uintptr_t)4096)
#define GAP       (64 * PAGE) /* as much as is copied with what is around it: a mapping more costs as much */
#define RUN_LEAST (16 * PAGE) /* less is not worth it */
#define HUGE_PAGE ((uintptr_t)2 << 20)
#define CODE_MOST (16 * HUGE_PAGE) /* of an interpreter with all of its libraries */

#define STRETCH      ((size_t)96 << 10) /* less than what malloc() maps by itself */
#define ARENA        ((size_t)64 << 20)
#define CACHED       1032
#define HOLES_MOST   256
#define SMALL_OBJECT 512 /* larger ones are the C library's anyway */

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

/* --- a script's first objects next to each other --- */

/* The interpreter has a page for each size of its objects, and every script needs most of them. So the first
 * objects come from the C library, which puts those of all sizes one after the other; who frees them finds
 * out whose they are, as with large ones. Then it goes on in the interpreter's own way. */

/* As in cpython/pymem.h, which is the same in every version and not in the stable ABI. */
enum { DOMAIN_MEM = 1, DOMAIN_OBJ };
struct allocator {
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
};
extern void PyMem_GetAllocator(int domain, struct allocator *ret);
extern void PyMem_SetAllocator(int domain, struct allocator *allocator);

static struct allocator usual[DOMAIN_OBJ + 1]; /* the interpreter's own */
static _Atomic size_t left;                    /* bytes that are still packed */

/* Unless somebody has put his own before ours, which then lets everything pass. */
static void go_on_as_usual(void)
{
    left = 0;
    for (int domain = DOMAIN_MEM; domain <= DOMAIN_OBJ; domain++) {
        struct allocator now;
        PyMem_GetAllocator(domain, &now);
        if (now.context == &usual[domain])
            PyMem_SetAllocator(domain, &usual[domain]);
    }
}

static bool is_packed(size_t size)
{
    const size_t now = atomic_load_explicit(&left, memory_order_relaxed);
    if (size > SMALL_OBJECT || !now)
        return false;
    if (size < now)
        atomic_store_explicit(&left, now - size, memory_order_relaxed);
    else
        go_on_as_usual();
    return true;
}

/* From 3.12 on an interpreter within the interpreter has threads of its own. One that reads the allocator
 * while it is replaced may call us with the context of the usual one, which is that of both domains. */
static const struct allocator *usual_of(void *context)
{
    return context ? context : &usual[DOMAIN_OBJ];
}

static void *packed_malloc(void *context, size_t size)
{
    const struct allocator *a = usual_of(context);
    return is_packed(size) ? malloc(size ? size : 1) : a->malloc(a->context, size);
}

static void *packed_calloc(void *context, size_t count, size_t size)
{
    const struct allocator *a = usual_of(context);
    const bool is = count && size && size <= SMALL_OBJECT && count <= SMALL_OBJECT && is_packed(count * size);
    return is ? calloc(count, size) : a->calloc(a->context, count, size);
}

static void *packed_realloc(void *context, void *block, size_t size)
{
    const struct allocator *a = usual_of(context);
    return !block ? packed_malloc(context, size) : a->realloc(a->context, block, size);
}

static void packed_free(void *context, void *block)
{
    const struct allocator *a = usual_of(context);
    a->free(a->context, block);
}

void gb_pages_pack(void)
{
    if (!left)
        return;
    for (int domain = DOMAIN_MEM; domain <= DOMAIN_OBJ; domain++) {
        struct allocator packed = {&usual[domain], packed_malloc, packed_calloc, packed_realloc, packed_free};
        PyMem_SetAllocator(domain, &packed);
    }
}

/* pack(bytes): what comes first is as much. Only where small objects lie in pools. */
static PyObject *pack(PyObject *module, PyObject *bytes)
{
    (void)module;
    for (int domain = DOMAIN_MEM; domain <= DOMAIN_OBJ; domain++)
        PyMem_GetAllocator(domain, &usual[domain]);
    left = PyLong_AsSize_t(bytes);
    Py_RETURN_NONE;
}

/* --- the interpreter's own code on huge pages --- */

/* A fork does not copy the page tables of a program's code: the child faults on it anew, some 50 times, and
 * at its end gives a thousand pages back. Code on huge pages of the zygote's own is two entries, which are
 * copied, and no fault. What a library has beside its code (constants) is moved with it and becomes
 * executable, too; nothing becomes writable. */

struct run {
    uintptr_t at;
    size_t bytes;
    int rights;
};

/* The line of /proc/self/maps, if it is read-only memory of a file: its range and whether it is code. */
static bool read_line(const char *line, uintptr_t *ret_begin, uintptr_t *ret_end, bool *ret_code)
{
    unsigned long begin, end;
    char rights[5], path[2];
    if (sscanf(line, "%lx-%lx %4s %*x %*s %*u %1s", &begin, &end, rights, path) != 4 || path[0] != '/' ||
        strstr(line, "/libffi.")) /* which looks there for its own code */
        return false;
    *ret_begin = begin;
    *ret_end = end;
    *ret_code = rights[2] == 'x';
    return rights[0] == 'r' && rights[1] == '-' && rights[3] == 'p';
}

/* Adjacent read-only mappings of files: code, constants, what the linker has filled in. */
static size_t find_constant(struct run *runs, size_t most)
{
    char line[1024];
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof(line), maps)) {
        uintptr_t begin, end;
        bool code;
        struct run *last = count ? &runs[count - 1] : NULL;
        if (!read_line(line, &begin, &end, &code))
            continue;
        const int rights = PROT_READ | (code ? PROT_EXEC : 0);
        if (last && last->at + last->bytes == begin) {
            last->bytes += end - begin;
            last->rights |= rights;
        } else if (count < most) {
            runs[count++] = (struct run){begin, end - begin, rights};
        }
    }
    if (maps)
        fclose(maps);
    return count;
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

/* Puts the copy of what is there in its place. In between nothing is missing: the kernel moves it in one
 * call. If that fails half way, a zygote dies of it, and boxes are made from nothing. */
static bool move(char *copy, const struct run *run)
{
    memcpy(copy, (const void *)run->at, run->bytes);
    if (run->rights & PROT_EXEC)
        __builtin___clear_cache(copy, copy + run->bytes);
    return (run->rights & PROT_WRITE || !mprotect(copy, run->bytes, run->rights)) &&
           mremap(copy, run->bytes, run->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)run->at) != MAP_FAILED;
}

/* huge_code(): how many huge pages there are now; none where the kernel has none to give. */
static PyObject *huge_code(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    struct run runs[64];
    size_t moved = 0;
    const size_t count = find_constant(runs, sizeof(runs) / sizeof(*runs));
    for (size_t i = 0; i < count; i++) {
        struct run whole = {.at = (runs[i].at + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), .rights = runs[i].rights};
        const uintptr_t end = (runs[i].at + runs[i].bytes) & ~(HUGE_PAGE - 1);
        whole.bytes = end > whole.at ? end - whole.at : 0;
        if (!whole.bytes || moved + whole.bytes > CODE_MOST || !(whole.rights & PROT_EXEC))
            continue;
        char *copy = huge_room(whole.bytes);
        if (copy && move(copy, &whole))
            moved += whole.bytes;
        else if (copy)
            munmap(copy, whole.bytes);
    }
    return PyLong_FromSize_t(moved / HUGE_PAGE);
}

/* --- its data in large pieces --- */

/* What a fork costs is, for the most part, one small page after the other: each is counted as used once more,
 * and once less at the end. Pages that lie in one huge page of the kernel's, wherever each of them is mapped,
 * are counted at once. So data is copied to huge pages, and from there moved back to where it was. */

static bool is_there(int pagemap, uintptr_t at)
{
    uint64_t entry = 0;
    return pread(pagemap, &entry, sizeof(entry), (off_t)(at / PAGE * sizeof(entry))) == sizeof(entry) &&
           entry >> 63;
}

/* Stretches of pages that are there, in a mapping that begins and ends so. */
static size_t find_runs(int pagemap, uintptr_t begin, uintptr_t end, struct run *runs, size_t most)
{
    size_t count = 0;
    for (uintptr_t at = begin; at < end; at += PAGE) {
        if (!is_there(pagemap, at))
            continue;
        struct run *last = count ? &runs[count - 1] : NULL;
        if (last && at - (last->at + last->bytes) <= GAP)
            last->bytes = at + PAGE - last->at;
        else if (count < most)
            runs[count++] = (struct run){at, PAGE, PROT_READ | PROT_WRITE};
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

/* A small library, all of it, is one mapping in place of four; of a large one most should be in use. */
static bool is_worth_it(int pagemap, const struct run *run)
{
    size_t used = 0;
    for (size_t at = 0; at < run->bytes; at += PAGE)
        used += is_there(pagemap, run->at + at);
    return run->bytes <= HUGE_PAGE && (run->bytes <= GAP || used >= run->bytes / PAGE / 3);
}

static size_t find_data(struct run *runs, size_t most)
{
    FILE *smaps = fopen("/proc/self/smaps", "re");
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    size_t count = smaps && pagemap >= 0 ? read_smaps(smaps, pagemap, runs, most) : 0;
    const size_t all = pagemap >= 0 ? count + find_constant(runs + count, most - count) : 0;
    for (size_t i = count; i < all; i++)
        if (is_worth_it(pagemap, &runs[i]))
            runs[count++] = runs[i];
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
    static struct run runs[128];
    size_t bytes = 0, moved = 0;
    const size_t count = find_data(runs, sizeof(runs) / sizeof(*runs));
    for (size_t i = 0; i < count; i++)
        bytes += runs[i].bytes;
    bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    char *copy = bytes ? huge_room(bytes) : NULL;
    for (size_t i = 0; copy && i < count && move(copy + moved, &runs[i]); i++)
        moved += runs[i].bytes;
    if (copy && moved < bytes)
        munmap(copy + moved, bytes - moved);
    return PyLong_FromSize_t(moved);
}

int gb_pages_add(PyObject *module)
{
    static PyMethodDef methods[] = {{"fill_holes", fill_holes, METH_NOARGS, "fill_holes()"},
                                    {"pack", pack, METH_O, "pack(bytes)"},
                                    {"huge_data", huge_data, METH_NOARGS, "huge_data()"},
                                    {"huge_code", huge_code, METH_NOARGS, "huge_code()"},
                                    {0}};
    return PyModule_AddFunctions(module, methods);
}
/* NOLINTEND(performance-no-int-to-ptr) */
