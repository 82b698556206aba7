/* The start-up code of Python, which looks at a script before it runs (see screen.h for how). It is data to
 * us: whoever makes a box in which the interpreter has yet to start puts it there. */
#pragma once

#include "spec/spec.h"

#include <stddef.h>

#define GB_PYTHON_DIR         ".glovebox" /* beneath /sandbox; gone before the script's first instruction */
#define GB_PYTHON_START_FILES 2

/* Embedded from runtimes/python: its source, and the same compiled for the Python of the machine that it was
 * built on, under the name by which Python looks for it. Another Python takes the source. */
extern const unsigned char gb_python_source[], gb_python_code[];
extern const size_t gb_python_source_bytes, gb_python_code_bytes;
extern const char gb_python_code_name[]; /* beneath GB_PYTHON_DIR */

/* Both as files of a box. */
void gb_python_start_files(struct gb_file ret[GB_PYTHON_START_FILES]);
