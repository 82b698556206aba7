/* One call of a tool that is no box: asked for at the broker, whose answer is sanitised. The sibling of
 * run.c: it uses the same slots (a call of the broker is one of boxes.running), and run_cancel and run_done
 * hold for it, too. */
#pragma once

#include "front/front.h"

struct call;

/* Asks for it. On failure nothing is left of it and err says why. */
int tool_start(struct call *call, struct gb_err *err);
