"""A node that has waited for its call (runtimes/node/start.js) does what a native `node main.js` does.

Without boxes: plain processes in a directory. In a box, PID 1 starts the one that waits in the same way, and writes the same words.
"""

import os
import re
import shutil
import subprocess

import pytest

START = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "runtimes", "node", "start.js"))
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/sandbox", "LANG": "C.UTF-8"}
LONG = "x" * 100000

CASES = {
    "output": "console.log(1)",
    "who it is": "console.log(process.argv.slice(1), process.execArgv, process.argv0, process.title, require.main === module, __filename, module.id, module.parent, process.mainModule === module)",
    "variables": "console.log(JSON.stringify(process.env), process.env.GIVEN.length)",
    "an error": "function f() { throw new Error('boom') }\nf()",
    "an error in a promise": "Promise.reject(new Error('r'))",
    "an error that is none": "throw 'text'",
    "an unknown name": "unknown()",
    "no javascript": "let x = ;",
    "nothing": "",
    "exit": "process.exit(7)",
    "exit code": "process.exitCode = 3; console.error('e')",
    "exit handler": "process.on('exit', (c) => console.log('bye', c)); process.exitCode = 4",
    "before exit": "process.once('beforeExit', () => console.log('before'))",
    "import": "import fs from 'fs'; console.log(typeof fs)",
    "dynamic import": "import('fs').then((fs) => console.log(typeof fs.readFileSync))",
    "require": "console.log(require('./helper').answer, require('node:path').sep)",
    "no such module": "require('./nothing')",
    "timers": "process.nextTick(() => console.log('n')); setImmediate(() => { console.log('i'); setTimeout(() => console.log('t'), 20) })",
    "input": "process.stdin.on('data', (d) => console.log('got', d.toString())).on('end', () => console.log('end'))",
    "input at once": "console.log(require('fs').readFileSync(0).toString())",
    "names": "console.log(Object.keys(require.cache), Object.keys(process).sort().join(), Object.keys(globalThis).join())",
    "handles": "console.log(process.stdout.constructor.name, process.stdout.isTTY, process.listenerCount('exit'), process._getActiveHandles().length)",
    "descriptors": "console.log(require('fs').readdirSync('/proc/self/fd').filter((n) => n < 3).length)",
    "a closed descriptor": "try { require('fs').fstatSync(3).isFIFO() && console.log('words') || console.log('no words') } catch (e) { console.log('no words') }",
    "a worker": "const { Worker, isMainThread } = require('worker_threads'); if (isMainThread) new Worker(__filename).on('exit', (c) => console.log('w', c)); else console.log('in worker')",
    "a child": "console.log(require('child_process').execFileSync(process.execPath, ['-e', 'console.log(process.execArgv.length, process.env.GIVEN.length)']).toString())",
    "a fork": "const cp = require('child_process'); if (process.argv[2] === 'x') process.send('hi'); else cp.fork(__filename, ['x']).on('message', (m) => console.log(m))",
    "a signal": "process.kill(process.pid, 'SIGTERM')",
    "abort": "process.abort()",
    "much output": "process.stdout.write('x'.repeat(200000) + '\\n')",
    "much output, then exit": "console.log('y'.repeat(100000)); process.exit(2)",
    "a warning": "process.emitWarning('w')",
    "recursion": "function f() { f() } try { f() } catch (e) { console.log(e.message) }",
    "a stack": "console.log(new Error('s').stack)",
    "strict mode": "console.log((function () { return this === globalThis })(), this === module.exports)",
    "json": "console.log(require('./data.json').a)",
    "async": "(async () => { await null; console.log('a'); throw new Error('late') })()",
    "vm": "console.log(require('vm').runInNewContext('1 + 1'))",
    "generators": "function* g() { yield* [1, 2] } console.log([...g()])",
    "big numbers": "console.log(2n ** 70n, 0.1 + 0.2, [1, { a: [] }], new Map([[1, 2]]))",
    "text": "console.log('äöü €', Buffer.from('ä').length, __dirname === process.cwd())",
}

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")


def prepare(tmp_path, code):
    (tmp_path / "main.js").write_text(code)
    (tmp_path / "helper.js").write_text("exports.answer = 42")
    (tmp_path / "data.json").write_text('{"a": 1}')
    return ["node", str(tmp_path / "main.js"), "a", "b c", ""]


def outcome(process, tmp_path, given):
    out, err = process.communicate(given, timeout=120)
    return process.returncode, out, re.sub(rb"\(node:\d+\)", b"(node:PID)", err), sorted(os.listdir(tmp_path))


def native(tmp_path, argv, env):
    return outcome(subprocess.Popen(argv, env=env, cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1), tmp_path, b"in")


def place(fd):
    os.dup2(fd, 3)
    os.set_inheritable(3, True)  # it may have been there already


def warm(tmp_path, argv, env):
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        ["node", "-r", START, argv[1]], env={**ENVIRONMENT, "OLD": "1"}, cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1,
        preexec_fn=lambda: place(ours), pass_fds=[3])  # fmt: skip
    os.close(ours)
    with open(theirs, "wb") as words:
        words.write("".join(word + "\0" for word in [str(len(argv)), *argv, *(f"{name}={value}" for name, value in env.items())]).encode())
    return outcome(process, tmp_path, b"in")


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_as_native(tmp_path, code):
    argv, env = prepare(tmp_path, code), {**ENVIRONMENT, "GIVEN": LONG}
    if code == CASES["a fork"]:
        argv = argv[:2]
    assert warm(tmp_path, argv, env) == native(tmp_path, argv, env)


def test_it_ends_if_nobody_comes(tmp_path):
    ours, theirs = os.pipe()
    os.close(theirs)
    argv = prepare(tmp_path, "console.log(1)")
    done = subprocess.run(["node", "-r", START, argv[1]], cwd=tmp_path, preexec_fn=lambda: place(ours), pass_fds=[3], capture_output=True, timeout=120)
    os.close(ours)
    assert (done.returncode, done.stdout) == (1, b"")
