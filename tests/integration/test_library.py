"""libglovebox: the example builds and runs, the library exports what its map says and nothing else, and works from C and C++."""

import pathlib
import re
import shutil
import subprocess

import pytest

TREE = pathlib.Path(__file__).resolve().parent.parent.parent


def sh(*command, timeout=120, **kwargs):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def flags(gb):
    """Compiler flags as pkg-config gives them for a build tree that is not installed."""
    if shutil.which("pkg-config"):
        path = f"{gb.build}/meson-uninstalled"
        given = sh("pkg-config", "--cflags", "--libs", "glovebox", env={"PKG_CONFIG_PATH": path, "PATH": "/usr/bin:/bin"}).split()
        assert "-lglovebox" in " ".join(given)
    return [f"-I{TREE}/include", f"-L{gb.build}", f"-Wl,-rpath,{gb.build}", "-lglovebox"]


@pytest.fixture(scope="module")
def compile(gb, flags, tmp_path_factory):
    sanitized = "libasan" in sh("readelf", "-d", gb.build / "libglovebox.so")

    def build(source, *options, compiler="cc"):
        program = tmp_path_factory.mktemp("c") / "program"
        asan = ["-fsanitize=address,undefined"] if sanitized else []
        sh(compiler, "-Wall", "-Wextra", "-Werror", *options, *asan, source, "-o", program, *flags)
        return program

    return build


def exported_by_map():
    text = (TREE / "src/lib/libglovebox.map").read_text()
    version, names = re.match(r"(\w+)\s*{\s*global:(.*?)local:", text, re.S).groups()
    return version, set(re.findall(r"\w+", names))


def test_exports_are_exactly_those_of_the_map(gb):
    version, names = exported_by_map()
    lines = sh("nm", "-D", "--defined-only", gb.build / "libglovebox.so").split("\n")
    exported = {line.split()[2] for line in lines if line} - {version}
    assert version == "GLOVEBOX_0"
    assert exported == {f"{name}@@{version}" for name in names}


def test_header_declares_exactly_what_is_exported():
    header = (TREE / "include/glovebox.h").read_text()
    assert set(re.findall(r"GB_EXPORT[^;(]*?\b(gb_\w+)\(", header)) == exported_by_map()[1]


def test_library_has_a_soname_and_is_hardened(gb):
    dynamic = sh("readelf", "-dW", gb.build / "libglovebox.so")
    assert "[libglovebox.so.0]" in dynamic and "TEXTREL" not in dynamic
    headers = sh("readelf", "-lW", gb.build / "libglovebox.so")
    assert re.search(r"GNU_STACK.* RW ", headers) and "GNU_RELRO" in headers


def test_example_is_short_and_runs_a_box(compile):
    source = TREE / "examples/run.c"
    assert len([line for line in source.read_text().splitlines() if line.strip()]) <= 35
    assert sh(compile(source, "-std=c17")) == "success: 4\n"


def test_header_works_in_cxx(compile, tmp_path):
    if not shutil.which("g++"):  # the compiler driver knows the language even without its library
        pytest.skip("no C++ compiler here")
    (tmp_path / "a.cc").write_text('#include <glovebox.h>\n#include <cstdio>\nint main() { std::puts(gb_version()); }\n')
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", sh(compile(tmp_path / "a.cc", compiler="g++")))


C_CALLS = r"""
#include <glovebox.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static struct gb_run *new_run(void)
{
    struct gb_run *run = gb_run_new();
    assert(run);
    if (getenv("GLOVEBOX_CGROUP_PARENT"))
        assert(!gb_run_set_cgroup_parent(run, getenv("GLOVEBOX_CGROUP_PARENT")));
    return run;
}

static void seen(void *context, int stream, const char *data, size_t len)
{
    (void)data;
    ((size_t *)context)[stream] += len;
}

static void whole_run(void)
{
    struct gb_run *run = new_run();
    size_t counts[2] = {0, 0}, len;
    const char *code = "import sys, os\nopen('o.bin', 'wb').write(bytes(3)); os.symlink('x', 'l.bin')\n"
                       "print(sys.argv[1], os.environ['K'], open('in').read(), input()); print('e', file=sys.stderr)";
    int in[2];
    assert(!pipe(in) && write(in[1], "typed\n", 6) == 6 && !close(in[1]));
    assert(!gb_run_set_code(run, "python", code, 0) && !gb_run_add_arg(run, "arg") && !gb_run_add_env(run, "K", "v"));
    assert(!gb_run_set_limit(run, "timeout_seconds", "20") && !gb_run_add_file(run, "in", "file\0x", 4, 0));
    assert(!gb_run_add_output(run, "*.bin") && !gb_run_set_stdin(run, in[0]) && !gb_run_on_output(run, seen, counts));
    assert(!gb_run_start(run));
    assert(!strcmp(gb_run_status(run), "success") && !gb_run_kill_reason(run) && !gb_run_exit_code(run) && !gb_run_truncated(run));
    assert(!strcmp(gb_run_stdout(run, &len), "arg v file typed\n") && len == 17 && counts[0] == 17 && counts[1] == 2);
    assert(!strcmp(gb_run_stderr(run, NULL), "e\n") && strstr(gb_run_json(run), "\"status\":\"success\""));
    const char *name, *skipped;
    const void *data;
    int taken = 0;
    for (size_t i = 0; !gb_run_output(run, i, &name, &data, &len, &skipped); i++) {
        assert(skipped ? !strcmp(name, "l.bin") && !data : !strcmp(name, "o.bin") && len == 3);
        taken++;
    }
    assert(taken == 2 && gb_run_start(run) < 0); /* a run is used once */
    gb_run_free(run);
    close(in[0]);
}

static void mistakes(void)
{
    struct gb_run *run = new_run();
    assert(gb_run_set_limit(run, "max_pids", "0") < 0 && strstr(gb_run_error(run), "max_pids"));
    assert(gb_run_set_limit(run, "no_such", "1") < 0 && strstr(gb_run_error(run), "no_such"));
    assert(gb_run_set_code(run, "cobol", "x", 0) < 0 && gb_run_set_code(run, "python", "a\0b", 3) < 0);
    assert(gb_run_add_output(run, "../x") < 0 && gb_run_add_env(run, "a b", "") < 0 && gb_run_add_file(run, "/x", "", 0, 0) < 0);
    assert(gb_run_add_mount(run, "/no/such", "/data", 0) < 0 && gb_run_set_rootfs(run, "/no/such") < 0 && gb_run_set_backend(run, "x") < 0);
    assert(gb_run_allow_degraded(run, "seccomp") < 0);
    assert(gb_run_start(run) < 0 && *gb_run_error(run) && *gb_run_error_code(run)); /* nothing to run */
    assert(!strcmp(gb_run_status(run), "internal_error") && gb_run_exit_code(run) == 125 && !gb_run_json(run));
    size_t len = 9;
    const char *name;
    const void *data;
    assert(!*gb_run_stdout(run, &len) && !len && gb_run_output(run, 0, &name, &data, &len, &name) == -ENOENT);
    gb_run_free(run);
    gb_run_free(NULL);
}

static void cancelled(void)
{
    struct gb_run *run = new_run();
    int wake[2];
    const char *argv[] = {"sleep", "300", NULL};
    assert(!pipe(wake) && write(wake[1], "x", 1) == 1);
    assert(!gb_run_set_program(run, argv) && !gb_run_set_cancel(run, wake[0]) && !gb_run_start(run));
    assert(!strcmp(gb_run_status(run), "cancelled") && !strcmp(gb_run_kill_reason(run), "cancelled") && gb_run_exit_code(run) == 130);
    gb_run_free(run);
    close(wake[0]);
    close(wake[1]);
}

int main(void)
{
    whole_run(); /* whatever a first run opens for good may stay */
    const int before = descriptors();
    pid_t own = fork();
    if (!own)
        _exit(5);
    whole_run();
    mistakes();
    cancelled();
    int status;
    assert(wait(&status) == own && WEXITSTATUS(status) == 5 && wait(&status) < 0); /* the caller's children are its own */
    assert(descriptors() == before);
    puts("ok");
}
"""

C_THREADS = r"""
#include <glovebox.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *arg)
{
    char code[64];
    struct gb_run *run = gb_run_new();
    const char *parent = getenv("GLOVEBOX_CGROUP_PARENT");
    snprintf(code, sizeof(code), "print(%d)", *(int *)arg);
    if ((parent && gb_run_set_cgroup_parent(run, parent)) || gb_run_set_code(run, "python", code, 0) || gb_run_start(run))
        printf("%s\n", gb_run_error(run));
    else if (strcmp(gb_run_status(run), "success") || atoi(gb_run_stdout(run, NULL)) != *(int *)arg)
        printf("%s\n", gb_run_json(run));
    gb_run_free(run);
    return NULL;
}

int main(void)
{
    pthread_t threads[6];
    int numbers[6];
    for (int i = 0; i < 6; i++)
        numbers[i] = 100 + i, pthread_create(&threads[i], NULL, work, &numbers[i]);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    puts("ok");
}
"""


def test_library_from_c(compile, tmp_path):
    (tmp_path / "calls.c").write_text(C_CALLS)
    assert sh(compile(tmp_path / "calls.c", "-D_GNU_SOURCE", "-UNDEBUG")) == "ok\n"


def test_runs_at_once_from_several_threads(compile, tmp_path):
    """The box is made by a clone of one thread: nothing between that and exec may wait for the other threads, which are not there."""
    (tmp_path / "threads.c").write_text(C_THREADS)
    program = compile(tmp_path / "threads.c", "-pthread")
    for _ in range(3):
        assert sh(program, timeout=20) == "ok\n"


def test_nothing_of_ours_sits_in_every_thread(gb):
    """Thread-local storage of a library is taken from the stack of each thread of whoever links it."""
    headers = subprocess.run(["readelf", "-lW", gb.build / "libglovebox.so"], capture_output=True, text=True, check=True).stdout
    assert "TLS" not in headers or "asan" in gb.build.name


@pytest.mark.executes("an environment that is too long for exec")
def test_a_setter_that_failed_refuses_the_run_and_an_environment_too_long_is_told(gb, tmp_path):
    source = tmp_path / "t.c"
    source.write_text("""
        #include <glovebox.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static char big[200001];
        int main(void) {
            struct gb_run *run = gb_run_new();
            const char *parent = getenv("GLOVEBOX_CGROUP_PARENT");
            gb_run_set_code(run, "sh", "true", 0);
            gb_run_set_limit(run, "max_memory_mb", "1O");
            printf("%d %s\\n", gb_run_start(run) < 0, gb_run_error(run));
            gb_run_free(run);
            memset(big, 'x', 200000);
            run = gb_run_new();
            if (parent) gb_run_set_cgroup_parent(run, parent);
            gb_run_set_code(run, "sh", "true", 0);
            gb_run_add_env(run, "BIG", big);
            printf("%d %s\\n", gb_run_start(run) < 0, gb_run_error(run));
            gb_run_free(run);
            return 0;
        }""")
    program = tmp_path / "t"
    top = pathlib.Path(__file__).parent.parent.parent
    flags = ["-fsanitize=address,undefined"] if "asan" in gb.build.name else []
    subprocess.run(["cc", *flags, "-I", top / "include", source, "-o", program, "-L", gb.build, "-lglovebox", f"-Wl,-rpath,{gb.build}"], check=True)
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].startswith("1 max_memory_mb: '1O' is not allowed"), lines
    assert lines[1].startswith("1 ") and "too long" in lines[1], lines
