/* What the escape probes share. A probe returns HELD, or ESCAPED after saying what it saw, or UNCLEAR where
 * this kernel cannot show it. */
#pragma once

#include <stdbool.h>

enum verdict { HELD, ESCAPED, UNCLEAR };

#define GB_PROBE(function, rows, steps, what) enum verdict probe_##function(void);
#include "probe/probes.def"
#undef GB_PROBE

/* Notes what was seen (one line, kept for the table) and returns the verdict. */
enum verdict escaped(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum verdict unclear(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Where main() takes the note from, while a probe runs; -1 if it does not. */
extern int note_fd;

/* Did the last call, which returned r, meet a wall? Sets nothing. */
bool refused(long r);
/* The value of "Name:" in /proc/self/status, or "" */
const char *status_field(const char *name);
/* Reads a whole small file; "" if it cannot be read. */
const char *slurp(const char *path);
