/* Between the files of screening. */
#pragma once

#include "screen/screen.h"

const struct gb_screen_rule *gb_screen_rule(const struct gb_screen *screen, size_t index);
bool gb_screen_is_for(const struct gb_screen_rule *rule, const char *runtime);

/* The start-up code, embedded from runtimes/python: its source, and the same compiled for the Python of the
 * machine that it was built on, under the name by which Python looks for it. Another Python takes the source.
 */
extern const unsigned char gb_python_source[], gb_python_code[];
extern const size_t gb_python_source_bytes, gb_python_code_bytes;
extern const char gb_python_code_name[];
