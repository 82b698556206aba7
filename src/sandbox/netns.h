/* The network namespace of a box that is cloned from its supervisor. */
#pragma once

#include "sandbox/box.h"

/* Box side, first of all: starts a process that makes one. The step `ns-net` waits for it and enters. */
void gb_netns_begin(struct gb_box *box);
