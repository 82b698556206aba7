"""What every test of the command line shares: one way to call glovebox, and what differs between the modes.

The same suite runs as root, as an ordinary user and as root of a user namespace, on the release build and on the one with sanitizers.
tests/run sets GB_BUILD (directory of the programs) and GB_MODE (root, user or userns).

On a test build GLOVEBOX_TEST_PATH says how boxes come to be: cold, from the supervisor, as everywhere else; or the way a pool has them (plain, python,
pooled: see src/backend/rehearsal.h).
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

BUILD = pathlib.Path(os.environ.get("GB_BUILD", pathlib.Path(__file__).parent.parent / "build")).resolve()
MODE = os.environ.get("GB_MODE", "root" if os.geteuid() == 0 else "user")
PATH = os.environ.get("GLOVEBOX_TEST_PATH", "cold")


class Glovebox:
    """Calls the program under test. Output is bytes: what a box prints is not always text."""

    program = str(BUILD / "glovebox")
    build = BUILD
    mode = MODE
    path = PATH

    def __call__(self, *args, input=b"", env=None, timeout=120, **kwargs):
        return subprocess.run(
            [self.program, *map(str, args)], input=input, env={**os.environ, **(env or {})}, timeout=timeout, capture_output=True, **kwargs
        )

    def run(self, *args, **kwargs):
        return self("run", *args, **kwargs)

    def json(self, *args, **kwargs):
        """Runs with --json; a result must come."""
        done = self("run", "--json", *args, **kwargs)
        assert done.stdout, done.stderr.decode(errors="replace")
        return json.loads(done.stdout)

    def python(self, code, *options, **kwargs):
        return self.json(*options, "-c", code, **kwargs)

    def sh(self, code, *options, **kwargs):
        return self.json("--lang", "sh", *options, "-c", code, **kwargs)

    def ok(self, code, *options, **kwargs):
        """Runs Python code that must succeed; returns what it printed."""
        result = self.python(code, *options, **kwargs)
        assert result["status"] == "success", result
        return result["stdout"]


@pytest.fixture(scope="session")
def gb():
    return Glovebox()


def pytest_configure(config):
    if (BUILD / "_glovebox.abi3.so").exists():
        config.warm = warm_directory()
        os.environ["GLOVEBOX_TEST_WARM"] = str(config.warm)
    config.addinivalue_line("markers", "testbuild: needs a build with -Dtesting=true, as root: it takes walls down or makes steps fail")
    config.addinivalue_line("markers", "rootonly: does what only root can, or what is the same whoever does it")
    config.addinivalue_line("markers", "cold(reason): is about what only a box that is built from nothing has")
    config.addinivalue_line("markers", "executes(reason): is about how init executes a program; a warm interpreter executes nothing, and the one of the tests does it by itself")
    config.addinivalue_line("markers", "warm: needs a box from a zygote")
    config.addinivalue_line("markers", "pooled: needs a box that has what another has used")
    config.addinivalue_line("markers", "unsanitized: needs a build without sanitizers: it looks at memory that was freed")


def pytest_unconfigure(config):
    if hasattr(config, "warm"):
        shutil.rmtree(config.warm)


def warm_directory():
    """What a Python zygote of the tests is made of; see GLOVEBOX_TEST_WARM in src/backend/rehearsal.h."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-warm-"))
    directory.chmod(0o755)
    shutil.copy(pathlib.Path(__file__).parent / "escape/bootstrap.py", directory / "main.py")
    shutil.copy(BUILD / "_glovebox.abi3.so", directory)
    return directory


def is_sanitized():
    program = BUILD / "glovebox"
    return program.exists() and b"__asan_init" in program.read_bytes()


def pytest_collection_modifyitems(items):
    """Tests that need a test build, root, or no sanitizers are left out of other runs, not skipped: tests/run runs them where they belong."""
    absent = {"testbuild": os.environ.get("GB_TESTING") != "1", "rootonly": MODE != "root", "unsanitized": is_sanitized(), "cold": PATH != "cold", "warm": PATH == "cold", "pooled": PATH != "pooled", "executes": PATH == "python"}
    items[:] = [item for item in items if not any(gone and item.get_closest_marker(name) for name, gone in absent.items())]
