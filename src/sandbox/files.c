/* The call's own files, put into the still empty /sandbox. */
#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>

static int put_file(int dir, const struct gb_file *f, struct gb_err *err)
{
    const char *leaf;
    AUTO_FD parent = gb_fd_open_parent(dir, f->name, &leaf);
    AUTO_FD out =
            parent < 0 ? parent
                       : openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, f->mode);
    if (parent < 0 || out < 0) {
        int error = parent < 0 ? -parent : errno;
        return error == EEXIST
                       ? gb_err_set(err, GB_ERR_USAGE, 0, "two files are called '%.200s'", f->name)
                       : gb_err_set(err, GB_ERR_INPUT, error, "make the file '%.200s' in the box", f->name);
    }
    ssize_t n = f->data ? gb_fd_write_all(out, f->data, f->len) : gb_fd_copy(out, f->fd);
    if (n == -ENOSPC)
        return gb_err_set(err, GB_ERR_INPUT, ENOSPC,
                          "the file '%.200s' does not fit into max_disk_mb (raise it)", f->name);
    return n < 0 ? gb_err_set(err, GB_ERR_INPUT, (int)-n, "copy the file '%.200s' into the box", f->name) : 0;
}

int gb_files_put(struct gb_box *box, struct gb_err *err)
{
    AUTO_FD dir = openat(box->root_fd, "sandbox", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return gb_err_set(err, GB_ERR_INTERNAL, errno, "open /sandbox");
    int r = 0;
    for (size_t i = 0; !r && i < box->spec->file_count; i++)
        r = put_file(dir, &box->spec->files[i], err);
    return r;
}
