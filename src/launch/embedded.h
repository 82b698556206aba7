/* What the launcher carries as bytes, and puts into zygotes. */
#pragma once

#include <stddef.h>

/* src/zygote/python.c, as built. */
extern const unsigned char gb_python_extension[];
extern const size_t gb_python_extension_bytes;
/* runtimes/node: what a node runs that waits. */
extern const unsigned char gb_node_start[];
extern const size_t gb_node_start_bytes;
/* src/zygote/node.c, as built. */
extern const unsigned char gb_node_extension[];
extern const size_t gb_node_extension_bytes;
