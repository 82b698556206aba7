/* Ids of executions and requests: 26 characters, sortable by time, not guessable (48 bits of milliseconds, 80
 * of chance, Crockford's base 32). */
#pragma once

#include <stdbool.h>

#define GB_ID_CHARS 26

void gb_id_new(char ret_id[GB_ID_CHARS + 1]);
bool gb_id_is_valid(const char *id);
