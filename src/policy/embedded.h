/* policy.schema.json, carried in the program. */
#pragma once

#include <stddef.h>

extern const unsigned char gb_policy_schema[];
extern const size_t gb_policy_schema_bytes;
