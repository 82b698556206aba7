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

/* The call has come: starts the program of a box that a zygote has borne. `go` is
 * GB_GO_START or GB_GO_SCREENED (init/report.h). One or two sealed payloads (wire/payload.h): argv,
 * environment, files. */
int gb_launch_start(struct gb_box *box, char go, const int *payloads, unsigned count, struct gb_err *err);

/* Its parts, for zygotes: what is opened before the clone, the clone itself (0 in the new process), which
 * part of it the host refuses, and its end. */
int gb_launch_prepare(struct gb_box *box, struct gb_err *err);
long gb_launch_clone(struct gb_box *box, uint64_t more_flags);
int gb_launch_explain(struct gb_box *box, int error, struct gb_err *err);
void gb_launch_kill(struct gb_box *box);
