/* Small files through descriptors. Everything opened here is close-on-exec from birth. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int gb_fd_open_dir(int at_fd, const char *path); /* a descriptor or -errno */
int gb_fd_write_all(int fd, const void *data, size_t len);
/* Opens dir_fd/name for writing and writes text in one write(2), as control files of the kernel want it. */
int gb_fd_put(int dir_fd, const char *name, const char *text);
/* Reads dir_fd/name as NUL-terminated text of at most size - 1 bytes. Returns its length or -errno. */
ssize_t gb_fd_get(int dir_fd, const char *name, char *buf, size_t size);
/* One number at the beginning of text ("max" reads as INT64_MAX). */
int gb_fd_to_int(const char *text, int64_t *ret_value);
/* The same, read from dir_fd/name. */
int gb_fd_get_int(int dir_fd, const char *name, int64_t *ret_value);
/* Finds "key value" in the lines of text. 0 or -ENOENT. */
int gb_fd_find_int(const char *text, const char *key, int64_t *ret_value);
/* Calls each(context, name) for the entries of an open directory but "." and "..", until it returns non-zero,
 * which is then returned. Allocates nothing, so it can be used after a fork. */
int gb_fd_each(int dir_fd, int (*each)(void *context, const char *name), void *context);
/* Opens the directory that dir_fd/name goes into, making what is missing on the way, and points *ret_leaf at
 * the last part of name. No link is followed: a part that is one is an error (ELOOP). Returns a descriptor
 * (O_PATH) or -errno. */
int gb_fd_open_parent(int dir_fd, const char *name, const char **ret_leaf);
/* Closes every descriptor but 0, 1, 2 and these. */
void gb_fd_close_others(const int *keep, unsigned count);
/* Copies up to the end of in_fd. Returns bytes copied or -errno. */
ssize_t gb_fd_copy(int out_fd, int in_fd);
