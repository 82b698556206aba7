/* The words of a call, as PID 1 of a box says them: each ends with NUL. First four numbers with a space
 * between them: arguments, rules (0 or 1), files, and the bytes of all that follows, so that nobody need wait
 * for the pipe to end; then the arguments, the rules if there are any, variables. */
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

#include <stddef.h>

/* None, if the call is like most: then its script was looked at if there are rules, and may run. Otherwise
 * nothing was done, and they are returned: arguments, variables, rules (bytes, or None), how many files came,
 * and whether arguments and variables, at least, are those of most calls. */
PyObject *gb_words_take(const char *words, size_t len);

/* The number that is there, after spaces; *at is then behind it. What strtol() would do needs pages that no
 * call has otherwise. */
long gb_words_number(const char **at);

/* Gives a module what it needs to know which calls are like most. 0, or -1 with an exception set. */
int gb_words_add(PyObject *module);
