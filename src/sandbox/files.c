/* The call's own files, put into the still empty /sandbox. */
#include "sandbox/steps.h"

#include "base/auto.h"
#include "base/fd.h"
#include "init/report.h"

#include <errno.h>
#include <fcntl.h>

static int explain(const struct gb_file *f, int error, struct gb_err *err)
{
    if (error == EEXIST)
        return gb_err_set(err, GB_ERR_USAGE, 0, "two files are called '%.200s'", f->name);
    if (error == ENOSPC)
        return gb_err_set(err, GB_ERR_INPUT, ENOSPC,
                          "the file '%.200s' does not fit into max_disk_mb (raise it)", f->name);
    return gb_err_set(err, GB_ERR_INPUT, error, "make the file '%.200s' in the box", f->name);
}

static int put_file(int dir, const struct gb_file *f, struct gb_err *err)
{
    const char *leaf;
    AUTO_FD parent = gb_fd_open_parent(dir, f->name, &leaf);
    AUTO_FD out =
            parent < 0 ? parent
                       : openat(parent, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, f->mode);
    if (parent < 0 || out < 0)
        return explain(f, parent < 0 ? -parent : errno, err);
    ssize_t n = f->data ? gb_fd_write_all(out, f->data, f->len) : gb_fd_copy(out, f->fd);
    return n < 0 ? explain(f, (int)-n, err) : 0;
}

int gb_files_explain(const struct gb_box *box, uint32_t number, int error, struct gb_err *err)
{
    static const struct gb_file other = {.name = "of the start-up code"};
    if (number == GB_PAYLOAD_ITSELF)
        return gb_err_set(err, GB_ERR_INTERNAL, error, "the payload of the call is not what it should be");
    return explain(number < box->spec->file_count ? &box->spec->files[number] : &other, error, err);
}

/* files, where a box has waited: PID 1 finds them in the payload, and reports one that it cannot make. */
int gb_files_sent(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    (void)err;
    return 0;
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
