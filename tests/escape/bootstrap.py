"""A Python zygote for the tests: what comes as a script is run in the warm interpreter, everything else is executed.

As in runtimes/python/zygote.py, a second thread waits: it is the only one that a box has.
"""

import _thread
import atexit
import gc
import os
import signal
import sys
import threading
from importlib.util import module_from_spec, spec_from_file_location

SPEC = spec_from_file_location("_glovebox", os.path.abspath("_glovebox.abi3.so"))
EXTENSION = module_from_spec(SPEC)
SPEC.loader.exec_module(EXTENSION)


def execute(argv):
    for ignored in signal.SIGPIPE, signal.SIGXFSZ:  # by the interpreter
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"bootstrap: {argv[0]}: {error}")


def run(argv):
    script = os.path.abspath(argv[1])
    sys.argv = argv[1:]
    sys.path[0] = os.path.dirname(script)
    space = sys.modules["__main__"].__dict__
    code = compile(open(script, "rb").read(), script, "exec")
    for word in [word for word in space if not word.startswith("__")]:
        del space[word]
    space["__file__"] = script
    exec(code, space)


def serve(argv, environment, leave=os._exit, run=run, execute=execute, atexit=atexit, sys=sys, threading=threading, os=os):
    status = 0
    try:
        os.environ.clear()
        os.environ.update(word.split("=", 1) for word in environment)
        is_script = argv[0] == "python3" and len(argv) > 1 and os.path.isfile(argv[1])
        run(argv) if is_script else execute(argv)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else print(end.code, file=sys.stderr) or 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    leave(status & 255)


def wait():
    serve(*EXTENSION.wait(lambda: None)[:2])  # it has not said what is usual, so that no call is


gc.freeze()
_thread.start_new_thread(wait, ())
while True:
    signal.pause()
