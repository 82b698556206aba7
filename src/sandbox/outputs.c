/* Host-side symlink following is the commonest sandbox escape of recent years. So: the box is dead before we
 * look (nothing can be swapped under us), every name is opened beneath a descriptor with no link followed,
 * and only regular files with one name are read. */
#include "sandbox/outputs.h"

#include "base/auto.h"
#include "base/sys.h"
#include "base/text.h"
#include "base/wall.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DEPTH   16
#define MAX_ENTRIES 100000

struct walk {
    const struct gb_spec *spec;
    struct gb_result *result;
    size_t bytes, entries;
};

bool gb_outputs_is_exact(const char *pattern)
{
    return !strpbrk(pattern, "*?[\\");
}

int gb_outputs_check(const char *pattern, struct gb_err *err)
{
    if (!gb_text_is_relative_name(pattern))
        return gb_err_set(err, GB_ERR_USAGE, 0,
                          "output '%.200s' must be a name or glob relative to %s, without '..'", pattern,
                          GB_WORKDIR);
    return 0;
}

static const char *read_file(struct walk *w, int dir, const char *name, struct gb_output *out)
{
    struct stat entry;
    if (fstatat(dir, name, &entry, AT_SYMLINK_NOFOLLOW))
        return "is not there";
    if (GB_WALL("outputs-beneath") && S_ISLNK(entry.st_mode))
        return "is a symbolic link";
    if (GB_WALL("outputs-regular") && !S_ISREG(entry.st_mode))
        return "is not a regular file";
    /* O_NONBLOCK: opening a FIFO must not wait for a writer that is dead. */
    AUTO_FD fd = gb_sys_openat2(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                                GB_WALL_FLAG("outputs-beneath", GB_BENEATH | RESOLVE_NO_XDEV));
    struct stat st;
    if (fd < 0)
        return "cannot be opened";
    if (fstat(fd, &st) || (GB_WALL("outputs-regular") && !S_ISREG(st.st_mode)))
        return "is not a regular file";
    if (GB_WALL("outputs-one-name") && st.st_nlink != 1)
        return "has several names (hard links)";
    if ((uint64_t)st.st_size > GB_OUTPUT_BYTES - w->bytes)
        return "is more than the 64 MiB that come back together";
    AUTO_FREE char *data = malloc((size_t)st.st_size + 1); /* one more: an empty file has data too */
    if (!data)
        return "is more than there is memory for";
    size_t got = 0;
    while (got < (size_t)st.st_size) {
        ssize_t n = read(fd, data + got, (size_t)st.st_size - got);
        if (n <= 0)
            return "cannot be read";
        got += (size_t)n;
    }
    out->len = got;
    out->data = TAKE_PTR(data);
    w->bytes += got;
    return NULL;
}

static bool wanted(const struct walk *w, const char *path)
{
    for (size_t i = 0; i < w->spec->output_count; i++)
        if (!fnmatch(w->spec->outputs[i], path, FNM_PATHNAME | FNM_PERIOD))
            return true;
    return false;
}

static int take(struct walk *w, int dir, const char *name, const char *path)
{
    struct gb_result *r = w->result;
    if (r->file_count >= GB_OUTPUT_FILES)
        return 0;
    struct gb_output *files = realloc(r->files, (r->file_count + 1) * sizeof(*files));
    if (!files)
        return -ENOMEM;
    r->files = files;
    struct gb_output *out = &files[r->file_count];
    *out = (struct gb_output){.name = strdup(path)};
    if (!out->name)
        return -ENOMEM;
    r->file_count++;
    if (w->entries > MAX_ENTRIES) {
        out->skipped = "and all after it: too many entries to look through";
        return 0;
    }
    out->skipped = r->file_count == GB_OUTPUT_FILES ? "and any after it: too many files match"
                                                    : read_file(w, dir, name, out);
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): at most MAX_DEPTH deep */
static int walk_dir(struct walk *w, int parent, const char *name, const char *prefix, int depth)
{
    AUTO_FD fd = gb_sys_openat2(parent, name, O_RDONLY | O_DIRECTORY, GB_BENEATH | RESOLVE_NO_XDEV);
    AUTO_DIR dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return 0; /* made unreadable by the program: its own loss */
    const int here = dirfd(dir);
    fd = -1; /* the stream owns it now */
    for (struct dirent *e; (e = readdir(dir));) {
        if (w->entries++ == MAX_ENTRIES) /* one row says that the rest was not looked at */
            return take(w, -1, "", prefix);
        if (w->entries > MAX_ENTRIES)
            return 0;
        char path[1024];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            (size_t)snprintf(path, sizeof(path), "%s%s", prefix, e->d_name) >= sizeof(path) - 1)
            continue;
        int r = wanted(w, path) ? take(w, here, e->d_name, path) : 0;
        if (!r && e->d_type == DT_DIR && depth < MAX_DEPTH) {
            strcat(path, "/"); /* NOLINT: room was kept above */
            r = walk_dir(w, here, e->d_name, path, depth + 1);
        }
        if (r)
            return r;
    }
    return 0;
}

static bool was_taken(const struct gb_result *r, const char *name)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (!strcmp(r->files[i].name, name))
            return true;
    return false;
}

int gb_outputs_collect(const struct gb_box *box, struct gb_result *result, struct gb_err *err)
{
    struct walk w = {.spec = box->spec, .result = result};
    if (!box->spec->output_count || box->scratch_fd < 0)
        return 0;
    int r = walk_dir(&w, box->scratch_fd, "sandbox", "", 0);
    /* A name without wildcards was asked for as such: its absence is told. */
    for (size_t i = 0; !r && i < box->spec->output_count; i++)
        if (gb_outputs_is_exact(box->spec->outputs[i]) && !was_taken(result, box->spec->outputs[i]))
            r = take(&w, -1, "", box->spec->outputs[i]);
    return r ? gb_err_set(err, GB_ERR_INTERNAL, -r, "collect output files") : 0;
}
