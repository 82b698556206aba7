"""A Python zygote for the tests: what comes as a script is run in the warm interpreter, everything else is executed."""

import gc
import os
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location

SPEC = spec_from_file_location("_glovebox", os.path.abspath("_glovebox.abi3.so"))
EXTENSION = module_from_spec(SPEC)
SPEC.loader.exec_module(EXTENSION)
gc.freeze()
argv, environment = EXTENSION.wait()
os.environ.clear()
os.environ.update(word.split("=", 1) for word in environment)
if argv[0] != "python3" or len(argv) < 2 or not os.path.isfile(argv[1]):
    for ignored in signal.SIGPIPE, signal.SIGXFSZ:  # by the interpreter
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"bootstrap: {argv[0]}: {error}")
sys.argv = argv[1:]
main = sys.modules["__main__"].__dict__
script = os.path.abspath(argv[1])
sys.path[0] = os.path.dirname(script)
for word in [word for word in main if not word.startswith("__") and word not in ("main", "script")]:
    del main[word]
code = compile(open(script, "rb").read(), script, "exec")
main["__file__"] = script
exec(code, main)
