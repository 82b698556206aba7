#include "backend/rehearsal.h"

#ifdef GB_TESTING

#include "backend/native.h"
#include "base/auto.h"
#include "base/fd.h"
#include "sandbox/launch.h"
#include "sandbox/zygote.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Directories of the host are a template's business: so far no zygote has any. */
bool gb_rehearsal_wanted(const struct gb_spec *spec)
{
    const char *path = getenv("GLOVEBOX_TEST_PATH");
    return path && strcmp(path, "cold") && !spec->rootfs && !spec->mount_count;
}

static int add_file(struct gb_buf *b, const struct gb_file *f, struct gb_err *err)
{
    struct stat st;
    const enum gb_item_kind kind = f->mode & 0111 ? GB_ITEM_PROGRAM : GB_ITEM_DATA;
    gb_payload_add_text(b, GB_ITEM_NAME, f->name);
    if (f->data) {
        gb_payload_add(b, kind, f->data, f->len);
        return 0;
    }
    if (fstat(f->fd, &st))
        return gb_err_set(err, GB_ERR_INPUT, errno, "read '%.200s'", f->name);
    char *copy = malloc((size_t)st.st_size + 1);
    ssize_t n = copy ? pread(f->fd, copy, (size_t)st.st_size, 0) : -1;
    if (n >= 0)
        gb_payload_add(b, kind, copy, (size_t)n);
    free(copy);
    return n < 0 ? gb_err_set(err, GB_ERR_INPUT, errno, "read '%.200s'", f->name) : 0;
}

static int make_payload(const struct gb_spec *spec, struct gb_err *err)
{
    AUTO_BUF b = {.max = SIZE_MAX / 2};
    for (size_t i = 0; spec->argv[i]; i++)
        gb_payload_add_text(&b, GB_ITEM_ARG, spec->argv[i]);
    for (size_t i = 0; spec->env && spec->env[i]; i++)
        gb_payload_add_text(&b, GB_ITEM_ENV, spec->env[i]);
    for (size_t i = 0; i < spec->file_count; i++) {
        int r = add_file(&b, &spec->files[i], err);
        if (r)
            return r;
    }
    int fd = gb_payload_seal(&b);
    return fd < 0 ? gb_err_set(err, GB_ERR_BUSY, -fd, "seal the payload") : fd;
}

/* The bootstrap and the extension lie in the directory that GLOVEBOX_TEST_WARM names. */
static int open_beside(const char *name)
{
    char path[PATH_MAX];
    const char *dir = getenv("GLOVEBOX_TEST_WARM");
    snprintf(path, sizeof(path), "%s/%s", dir ? dir : ".", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int gb_rehearsal_run(const struct gb_spec *spec, gb_backend_output_fn *on_output, void *context,
                     struct gb_result *result, struct gb_err *err)
{
    struct gb_zygote_spec zspec = {.degraded = spec->degraded};
    struct gb_file files[2] = {{.name = "main.py"}, {.name = "_glovebox.abi3.so"}};
    if (!strcmp(getenv("GLOVEBOX_TEST_PATH"), "python")) {
        for (size_t i = 0; i < ARRAY_LEN(files); i++)
            files[i].fd = open_beside(files[i].name);
        zspec.program = "python3";
        zspec.script = files[0].name;
        zspec.files = files;
        zspec.file_count = ARRAY_LEN(files);
    }
    struct gb_zygote zygote = {.socket = -1, .pidfd = -1};
    struct gb_box box;
    gb_box_init(&box, spec);
    box.zygote = &zygote;
    AUTO_FD payload = make_payload(spec, err);
    int r = payload < 0 ? payload : gb_zygote_start(&zspec, &zygote, err);
    if (!r)
        r = gb_launch(&box, err);
    if (!r)
        r = gb_launch_start(&box, &payload, 1, err);
    if (!r)
        r = gb_native_serve(&box, on_output, context, result, err);
    else if (r == -ECANCELED) {
        gb_native_cancelled(&box, result, err);
        r = 0;
    }
    gb_box_done(&box);
    if (zygote.pidfd >= 0)
        pidfd_send_signal(zygote.pidfd, SIGKILL, NULL, 0);
    if (zygote.pid > 0)
        (void)waitpid(zygote.pid, NULL, __WALL);
    gb_zygote_retire(&zygote);
    return r;
}

#endif
