/* The bootstraps of warm runtimes, embedded from runtimes/: what a zygote or a waiting box is given to run
 * before there is a call. Texts, not NUL-terminated. They are in libraries of their own (python-zygote), so
 * that the launcher links them and none of the front's parsers. */
#pragma once

#include <stddef.h>

/* main.py of the interpreter whose forks become boxes; runtimes/python/zygote.py. */
extern const unsigned char gb_python_zygote[];
extern const size_t gb_python_zygote_bytes;
