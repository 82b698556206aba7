/* What the launcher carries as bytes, and puts into zygotes. */
#pragma once

#include <stddef.h>

/* runtimes/python: what a warm interpreter runs until its call comes; and the extension that it needs. */
extern const unsigned char gb_python_zygote[], gb_python_extension[];
extern const size_t gb_python_zygote_bytes, gb_python_extension_bytes;
/* runtimes/node: what a node runs that waits. */
extern const unsigned char gb_node_start[];
extern const size_t gb_node_start_bytes;
