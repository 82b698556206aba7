/* What lies beneath a script in a warm interpreter, for an extension module: methods for its table.
 *
 * A native interpreter calls a script from C: no Python frame is beneath it, and none beneath what is called
 * at the end. The bootstrap (zygote.py) is Python, so that its frames would be: sys._getframe().f_back,
 * traceback.print_stack(), warnings with a stacklevel and the depth of a recursion would tell. So it is a
 * generator in a thread of its own that hands out what is to be called; while that runs it is suspended, and
 * on no stack.
 *
 * Limited API of Python 3.9, and PyRun_FileExFlags: not part of it, but exported by every Python 3 with the
 * same parameters; it alone reads a script as the interpreter does. */
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

/* Gives a module its functions; see beneath.c and pages.c. 0, or -1 with an exception set. */
int gb_beneath_add(PyObject *module);

/* In a box, when its call has come: what is made from now on lies close together. */
void gb_pages_pack(void);
/* Of pages.c alone; gb_beneath_add calls it. */
int gb_pages_add(PyObject *module);
