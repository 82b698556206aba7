/* Mount attributes on kernels before 5.12, which have no mount_setattr. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sets MOUNT_ATTR_* flags on the attached mount at fd, and on all mounts below it, one remount each. 0 or
 * -errno. */
int gb_remount(int fd, uint64_t attr, bool recursive);
