"""The ending for an interpreter that has just been started.

Python's own `site` imports it as sitecustomize, from a directory beside the script that PYTHONPATH names. At that time nothing
of the box's files is on the path, so that nothing of them can run before. When it has taken away files, variables and modules
the interpreter goes on, and runs the script as always.
"""

import gc

gc.disable()  # a syntax tree is many objects, and none of them is garbage before it is over
HOME = __file__.rpartition("/")[0]
BOX = HOME.rpartition("/")[0]
SCRIPT = BOX + "/main.py"


def leave():
    import os
    import site

    remove_files()
    for name in ("PYTHONPATH", "PYTHONUSERBASE"):
        os.environ.pop(name, None)
    sys.path[:] = [p for p in sys.path if p != HOME]
    sys.path_importer_cache.pop(HOME, None)
    sys.modules.pop("sitecustomize", None)
    sys.modules.pop("gc", None)
    user_packages(site)


def main():
    rules, modules, builtins = configure(read(HOME + "/start.txt").decode())
    examine(rules, read(HOME + "/main.py"), importable())
    leave()
    restrict(modules, builtins)
    place()
    gc.enable()


try:
    main()
except BaseException as e:
    failed(e)

import sitecustomize  # noqa: E402 F401  the system's own, which ours stood before; `site` passes over it if there is none
