#include "zygote/prefault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES_MOST    2048
#define MAPPINGS_MOST 512
#define AROUND        16 /* pages of a file that the kernel maps with the one that was asked for */
/* /proc/PID/pagemap: */
#define PAGE_EXCLUSIVE ((uint64_t)1 << 56) /* nobody else maps it */
#define PAGE_PRESENT   ((uint64_t)1 << 63)

static struct mapping {
    uintptr_t start, end;
    bool writable;
} mappings[MAPPINGS_MOST];
static size_t mapping_count;

/* The address of a page; its lowest bit: it is written to. */
static uintptr_t pages[PAGES_MOST];
static size_t page_count;

/* --- in the fork that tries --- */

static void add_page(uintptr_t page, bool written)
{
    if (page_count < PAGES_MOST)
        pages[page_count++] = page | written;
}

/* The pages of one mapping that are this process's alone; of a file, which of its parts are mapped. */
static void look_at(int pagemap, uintptr_t start, uintptr_t end, bool writable, size_t size)
{
    uint64_t entries[512];
    uintptr_t next = start; /* of a file: what is before is mapped with what was added last */
    for (uintptr_t at = start; at < end;) {
        const size_t want = (end - at) / size < 512 ? (end - at) / size : 512;
        const ssize_t got =
                pread(pagemap, entries, want * sizeof(*entries), (off_t)(at / size * sizeof(*entries)));
        if (got <= 0)
            return;
        for (size_t i = 0; i < (size_t)got / sizeof(*entries); i++, at += size) {
            if (!(entries[i] & PAGE_PRESENT) || (writable && !(entries[i] & PAGE_EXCLUSIVE)) || at < next)
                continue;
            add_page(at, writable);
            next = writable ? at + size : (at / size / AROUND + 1) * AROUND * size;
        }
    }
}

static void look(int proc_fd)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    const int pagemap = openat(proc_fd, "self/pagemap", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; pagemap >= 0 && i < mapping_count; i++)
        look_at(pagemap, mappings[i].start, mappings[i].end, mappings[i].writable, size);
}

/* --- in the process that is forked from --- */

/* Only what is mapped here is in every fork. */
static void list_mappings(int proc_fd)
{
    const int fd = openat(proc_fd, "self/maps", O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    char line[512], mode[5];
    uintptr_t start, end;
    mapping_count = 0;
    while (maps && fgets(line, sizeof(line), maps) && mapping_count < MAPPINGS_MOST)
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, mode) == 3 && mode[0] == 'r' &&
            mode[3] == 'p' && (mode[1] == 'w' || strchr(line, '/')) && !strstr(line, "[stack]"))
            mappings[mapping_count++] = (struct mapping){start, end, mode[1] == 'w'};
    if (maps)
        (void)fclose(maps);
}

void gb_prefault_learn(void (*rehearse)(void *context), void *context, int proc_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return;
    list_mappings(proc_fd);
    const pid_t pid = fork();
    if (pid == 0) {
        rehearse(context);
        page_count = 0;
        look(proc_fd);
        (void)!write(ends[1], pages, page_count * sizeof(*pages)); /* 16 KiB: fits into a pipe */
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t n; pid > 0 && (n = read(ends[0], (char *)pages + got, sizeof(pages) - got)) != 0;) {
        if (n < 0 && errno != EINTR)
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    close(ends[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    page_count = got / sizeof(*pages);
}

/* By touching them: to have it done with one call for many (MADV_POPULATE_WRITE) takes longer. */
void gb_prefault(void)
{
    for (size_t i = 0; i < page_count; i++) {
        volatile char *p = (volatile char *)(pages[i] & ~(uintptr_t)1);
        const char c = *p;
        if (pages[i] & 1)
            *p = c;
    }
}
