/* What a process of the service sees of the file system; called by confine.c, as root only. */
#pragma once

/* A new root: the directory, or an empty one if dir_fd is negative. Nothing else is mounted any more, and
 * dir_fd is the new root's. 0 or -errno.
 */
int gb_view_replace(int dir_fd);
/* The host's tree, read-only but for what boxes are made of: cgroups, /proc and /run/glovebox. 0 or -errno.
 */
int gb_view_freeze(void);
