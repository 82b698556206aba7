/* The one way to start a box. */
#pragma once

#include "sandbox/box.h"

/* glovebox-init, as built: it is run from a sealed copy in memory, so that no file of the host is PID 1's
 * image. */
extern const unsigned char gb_init_image[];
extern const size_t gb_init_image_bytes;

/* Runs every step of steps.c in order. On success the program is about to start, box->init_fd watches the box
 * and box->receipt says what was applied. On failure nothing was run, nothing is left, and err names the
 * step. */
int gb_launch(struct gb_box *box, struct gb_err *err);
