"""A node that was started ahead of its call (runtimes/node/start.js) against one that is started for it: the same scripts, byte for byte the same outcome.

Without boxes: `node -r start.js DIRECTORY/main.js` waits in an empty directory with its control pipe; then come the files and the words. The
native run uses a directory of the same name.
"""

import functools
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import pytest
import warm

from conftest import BUILD

pytestmark = [pytest.mark.rootonly, pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")]  # it is the same whoever does it
NODE = "/usr/bin/node"
START = pathlib.Path(__file__).resolve().parent.parent.parent / "runtimes/node/start.js"
DIRECTORY = tempfile.TemporaryDirectory(prefix="glovebox-test-")

# A script, or a script with a dictionary: files, args, env, input.
SCRIPTS = {
    "print": "console.log(1)",
    "empty": "",
    "comment": "// nothing",
    "names": "console.log(__filename, __dirname, module.id, module.filename, module.loaded, module.paths, module.children, module.parent, require.main === module)",
    "arguments": ("console.log(process.argv, process.argv0, process.execArgv, process.execPath, process.title)", {"args": ["a", "b c", "", "-x", "ü"]}),
    "no arguments": "console.log(process.argv, process.argv0, process.execArgv)",
    "environment": ("console.log(process.env, Object.keys(process.env))", {"env": {"GREETING": "hällo", "EMPTY": "", "EQUALS": "a=b"}}),
    "environment of children": ("require('child_process').spawnSync('env', { stdio: 'inherit' })", {"env": {"A": "1"}}),
    "removed variables": ("console.log(Object.keys(process.env), process.env.USER)", {"env": {"USER": None}}),
    "order of variables": ("console.log(Object.keys(process.env))", {"env": {"USER": None, "A": "1", "LOGNAME": "x"}}),
    "home": ("console.log(require('os').homedir(), require('module').globalPaths, require.resolve.paths('x'))", {"env": {"HOME": "/nonexistent"}}),
    "time zone": ("console.log(new Date(0).toString(), Intl.DateTimeFormat().resolvedOptions().timeZone)", {"env": {"TZ": "Asia/Tokyo"}}),
    "another locale": ("console.log(Intl.DateTimeFormat().resolvedOptions().locale, (1234.5).toLocaleString())", {"env": {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8"}}),
    "node options": ("console.log(process.execArgv, typeof gc, process.env.NODE_OPTIONS)", {"env": {"NODE_OPTIONS": "--max-old-space-size=64"}}),
    "node path": ("console.log(require('own').x)", {"env": {"NODE_PATH": "lib"}, "files": {"lib/own.js": "exports.x = 5"}}),
    "node options and errors": ("process.exitCode = 9; throw new Error('x')", {"env": {"NODE_NO_WARNINGS": "1"}}),
    "node options and signal": ("process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 5000)", {"env": {"NODE_NO_WARNINGS": "1"}}),
    "long variable": ("console.log(process.env.LONG.length); require('child_process').spawnSync('sh', ['-c', 'echo ${#LONG}'], { stdio: 'inherit' })", {"env": {"LONG": "x" * 100000}}),
    "handles": "console.log('x'); console.log(process.stdout.constructor.name, process.stdout.isTTY, process.listenerCount('exit'), process._getActiveHandles().length)",
    "words are gone": "try { console.log(require('fs').fstatSync(3).isFIFO() ? 'words' : 'none'); } catch (e) { console.log('none'); }",
    "standard descriptors": "console.log(require('fs').readdirSync('/proc/self/fd').filter((n) => n < 3).length)",
    "abort": "process.abort()",
    "generators": "function* g() { yield* [1, 2]; } console.log([...g()], 2n ** 70n, 0.1 + 0.2)",
    "globals": "console.log(Object.getOwnPropertyNames(globalThis).sort().join(), this === module.exports, typeof gc)",
    "process": "console.log(Reflect.ownKeys(process).map(String).sort().join(), process.eventNames(), process.listenerCount('exit'), process._preload_modules, process.exitCode, process._exiting)",
    "events of process": "console.log(Object.keys(process._events), process.rawListeners('warning').length, process.listeners('exit'))",
    "features": "console.log(process.features, process.release.name, process.version, process.config.variables.napi_build_version, process.allowedNodeEnvironmentFlags.size)",
    "cache": "console.log(Object.keys(require.cache), Object.keys(require('module')._pathCache).length)",
    "module": "const M = require('module'); console.log(M.builtinModules.length, M._extensions, M.globalPaths, M.wrap('x'))",
    "directory": "console.log(process.cwd(), require('fs').readdirSync('.'))",
    "streams": "for (const s of [process.stdin, process.stdout, process.stderr]) console.log(s.constructor.name, s.fd, s.isTTY, s._type, s.readable, s.writable, s.writableHighWaterMark, s.writableLength, s.bytesWritten, s.listenerCount('error'), s.eventNames())",
    "stdin": ("process.stdin.setEncoding('utf8'); let t = ''; process.stdin.on('data', (d) => t += d).on('end', () => console.log(t.length, t.slice(0, 20)))", {"input": b"hello\n" * 20000}),
    "stdin at once": ("console.log(JSON.stringify(require('fs').readFileSync(0, 'utf8')))", {"input": "line 1\nlinie 2 ü".encode()}),
    "stdin by lines": ("require('readline').createInterface({ input: process.stdin }).on('line', (l) => console.log('<' + l + '>'))", {"input": b"a\nb\r\nc"}),
    "large output": "process.stdout.write('x'.repeat(300000)); console.log('end')",
    "output and exit": "console.log('a'); console.error('b'); process.stdout.write('no newline'); process.exit(3)",
    "output with callback": "process.stdout.write('a\\n', () => console.log('written'))",
    "output in pieces": "for (let i = 0; i < 1000; i++) console.log(i, 'x'.repeat(i % 50))",
    "binary output": "process.stdout.write(Buffer.from(Array.from({ length: 256 }, (_, i) => i)))",
    "inspection": "console.log({ a: [1, { b: new Map([[1, new Set([2])]]) }], f() {}, s: Symbol('x'), d: new Date(0), e: null, u: undefined, n: -0, big: 10n, r: /x/g }, [1, , 3], class A {}, new (class B { x = 1 })())",
    "table and groups": "console.table([{ a: 1, b: 2 }]); console.group('g'); console.log('in'); console.groupEnd(); console.dir({ a: 1 }); console.count(); console.count(); console.assert(0, 'no')",
    "trace": "console.trace('here')",
    "trace in function": "function f() { console.trace('there'); } f(); setTimeout(f, 1); process.nextTick(f); Promise.resolve().then(f)",
    "error": "function f() { throw new Error('x'); }\nf();",
    "error of another kind": "throw 5",
    "error null": "throw null",
    "error object": "throw { a: 1 }",
    "error with cause": "throw new Error('a', { cause: new TypeError('b') })",
    "error with code": "const e = new Error('x'); e.code = 'E_X'; e.more = { a: 1 }; throw e",
    "error in callback": "setTimeout(() => { throw new Error('late'); }, 1)",
    "error in tick": "process.nextTick(() => { undefined.x; })",
    "reference": "nothing()",
    "type": "null.x",
    "assertion": "require('assert').strictEqual(1, 2)",
    "assertion of objects": "require('assert').deepStrictEqual({ a: [1, 2] }, { a: [1, 3] })",
    "missing module": "require('nothing-of-the-kind')",
    "missing file": "require('./nothing')",
    "missing file, handled": "try { require('./x'); } catch (e) { console.log(e.code, e.requireStack, e.message); }",
    "own module": ("console.log(require('./own').x, require('./own') === require('./own.js'), require('./data.json'), module.children.length, Object.keys(require.cache))", {"files": {"own.js": "exports.x = __filename; console.log(module.parent === require.main, require.main.filename)", "data.json": '{"a": 1}'}}),
    "error in own module": ("require('./own')", {"files": {"own.js": "throw new Error('own')"}}),
    "syntax error in own module": ("require('./own')", {"files": {"own.js": "x = ("}}),
    "package": ("console.log(require('pkg').name)", {"files": {"node_modules/pkg/package.json": '{"name": "pkg", "main": "lib.js"}', "node_modules/pkg/lib.js": "exports.name = 'lib'"}}),
    "cycle": ("console.log(require('./a').done)", {"files": {"a.js": "exports.done = false; require('./b'); exports.done = true", "b.js": "console.log(require('./a').done)"}}),
    "syntax error": "let x = ;",
    "syntax error later": "console.log(1)\nlet x = 1\nlet x = 2",
    "unclosed": "function f() {",
    "strict": "'use strict'; x = 5",
    "return at the top": "console.log(1); return; console.log(2)",
    "arguments at the top": "console.log(arguments.length, typeof arguments[1], typeof require, typeof exports)",
    "shebang": "#!/usr/bin/env node\nconsole.log(1)",
    "bom": b"\xef\xbb\xbfconsole.log('x')",
    "carriage returns": "let x = 1\r\nthrow new Error('crlf')\r\n",
    "unicode": "const größe = '😀'; console.log(größe, größe.length, '\\u200b'); throw new Error('ü')",
    "megabyte": "let x = 0\n" + "x += 1 // fill\n" * 60000 + "console.log(x)",
    "exit code": "process.exitCode = 4",
    "exit code at exit": "process.on('exit', (c) => { console.log('exit', c); process.exitCode = 6; })",
    "exit listeners": "process.on('exit', (c) => console.log('first', c)); process.once('exit', () => console.log('second')); process.prependListener('exit', () => console.log('before')); console.log(process.listeners('exit').length, process.eventNames())",
    "exit listener removed": "const f = () => console.log('no'); process.on('exit', f); process.off('exit', f); console.log(process.listenerCount('exit'), process.eventNames())",
    "all exit listeners removed": "process.on('exit', () => console.log('no')); process.removeAllListeners('exit'); console.log(process.eventNames())",
    "all listeners removed": "process.on('exit', () => console.log('no')); process.removeAllListeners(); process.on('exit', () => console.log('yes')); process.exitCode = 3",
    "exit listener that exits": "process.on('exit', () => process.exit(8)); process.on('exit', () => console.log('no'))",
    "exit listener counts": "process.on('exit', () => console.log(process.listenerCount('exit'), process.listeners('exit').length))",
    "exit listener adds": "process.on('exit', () => process.on('exit', () => console.log('no')))",
    "exit by hand": "process.on('exit', (c) => console.log('exit', c)); process.emit('exit', 5); console.log('still here')",
    "exit twice": "process.on('exit', (c) => console.log('exit', c)); process.exit(2)",
    "really exit replaced": "process.reallyExit = () => console.log('no'); process.exitCode = 3",
    "before exit": "let n = 0; process.on('beforeExit', (c) => { console.log('before', c); if (n++ < 2) setTimeout(() => console.log('more'), 1); })",
    "exit text": "process.exit('3')",
    "exit null": "process.exit(null)",
    "exit odd": "process.exit({})",
    "exit big": "process.exit(300)",
    "exit true": "process.exitCode = true",
    "unhandled rejection": "Promise.reject(new Error('rejected'))",
    "unhandled rejection of a text": "Promise.reject('text')",
    "rejection handled late": "const p = Promise.reject(new Error('x')); setTimeout(() => p.catch(() => console.log('late')), 5)",
    "rejection handler": "process.on('unhandledRejection', (e, p) => { console.log('handler', e, p instanceof Promise); }); Promise.reject(7)",
    "exception handler": "process.on('uncaughtException', (e, origin) => { console.log('handler', e.message, origin); }); setTimeout(() => console.log('on'), 5); throw new Error('x')",
    "exception handler that throws": "process.on('uncaughtException', () => { throw new Error('again'); }); throw new Error('x')",
    "exception monitor": "process.on('uncaughtExceptionMonitor', (e) => console.log('seen', e.message)); throw new Error('x')",
    "order": "setImmediate(() => { console.log('immediate'); setTimeout(() => console.log('timeout')); }); process.nextTick(() => console.log('tick')); Promise.resolve().then(() => console.log('micro')); queueMicrotask(() => console.log('micro 2')); console.log('sync')",
    "async": "(async () => { for await (const x of (async function* () { yield 1; yield 2; })()) console.log(x); await null; throw new Error('async'); })()",
    "timers": "const t = setInterval(() => { console.log('tick'); if (++n > 2) clearInterval(t); }, 1); let n = 0",
    "unreferenced timer": "setTimeout(() => console.log('no'), 100000).unref(); console.log('end')",
    "kill": "process.kill(process.pid, 'SIGKILL'); setTimeout(() => {}, 5000)",
    "terminate": "console.log('x'); process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 5000)",
    "terminate with handler": "process.on('SIGTERM', (s, n) => { console.log(s, n); process.exit(5); }); process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 5000)",
    "interrupt": "process.kill(process.pid, 'SIGINT'); setTimeout(() => {}, 5000)",
    "abort signal": "const c = new AbortController(); c.signal.addEventListener('abort', () => console.log('aborted')); c.abort()",
    "warning": "process.emitWarning('careful', { code: 'W1', detail: 'more' })",
    "warning listener": "process.on('warning', (w) => console.log(w.name, w.message)); process.emitWarning('x', 'OwnWarning')",
    "deprecation": "new Buffer(5)",
    "too many listeners": "const e = new (require('events'))(); for (let i = 0; i < 11; i++) e.on('x', () => {}); console.log('ok')",
    "recursion": "let n = 0; try { (function f() { n++; f(); })(); } catch (e) { console.log(e instanceof RangeError, n > 1000, e.message); }",
    "recursion, not handled": "(function f() { f(); })()",
    "stack": "Error.stackTraceLimit = 50; console.log(new Error('x').stack)",
    "stack limit": "console.log(Error.stackTraceLimit, Error.prepareStackTrace)",
    "structured stack": "Error.prepareStackTrace = (e, s) => s.map((f) => f.getFileName() + ':' + f.getLineNumber() + ' ' + f.getFunctionName()).join('\\n'); console.log(new Error('x').stack)",
    "async stack": "async function a() { await null; throw new Error('deep'); } async function b() { await a(); } b()",
    "eval": "console.log(eval('1 + 1'), new Function('return 5')()); eval('throw new Error(\"in eval\")')",
    "vm": "const vm = require('vm'); console.log(vm.runInNewContext('x + 1', { x: 1 }), typeof vm.runInNewContext('typeof gc')); vm.runInThisContext('throw new Error(\"vm\")', 'own.js')",
    "worker": ("const { Worker, isMainThread } = require('worker_threads'); new Worker('./w.js', { workerData: 5 }).on('message', (m) => console.log('got', m)).on('exit', (c) => console.log('exit', c))", {"files": {"w.js": "const { parentPort, workerData } = require('worker_threads'); parentPort.postMessage([workerData, process.argv.length, process.execArgv, Object.keys(require.cache).length])"}}),
    "worker that fails": ("new (require('worker_threads').Worker)('./w.js').on('error', (e) => console.log(e.message))", {"files": {"w.js": "throw new Error('in worker')"}}),
    "worker by eval": "new (require('worker_threads').Worker)('require(\"worker_threads\").parentPort.postMessage(1)', { eval: true }).on('message', console.log)",
    "fork": ("if (process.argv[2]) { process.send({ argv: process.argv.slice(2), exec: process.execArgv }); } else { const c = require('child_process').fork(__filename, ['child']); c.on('message', (m) => console.log(m)).on('exit', (c) => console.log('exit', c)); }", {}),
    "spawn": "const { spawn } = require('child_process'); spawn('sh', ['-c', 'echo out; echo err >&2; exit 3']).on('close', (c) => console.log(c)).stdout.on('data', (d) => console.log(String(d)))",
    "exec": "require('child_process').exec('echo hi; exit 2', (e, out) => console.log(e.code, out))",
    "spawn node": "console.log(require('child_process').execFileSync(process.execPath, ['-p', 'process.argv.length + process.execArgv.join()']).toString())",
    "descriptors of a child": "require('child_process').spawnSync('ls', ['/proc/self/fd'], { stdio: 'inherit' })",
    "files": "const fs = require('fs'); fs.writeFileSync('a.txt', 'x'); fs.appendFileSync('a.txt', 'y'); fs.mkdirSync('d/e', { recursive: true }); fs.promises.writeFile('d/e/f', 'z').then(() => console.log(fs.readFileSync('a.txt', 'utf8'), fs.readdirSync('d/e')))",
    "stream to file": "const s = require('fs').createWriteStream('out.txt'); for (let i = 0; i < 1000; i++) s.write('line ' + i + '\\n'); s.end()",
    "missing data file": "require('fs').readFileSync('nothing')",
    "crypto": "const c = require('crypto'); console.log(c.createHash('sha256').update('x').digest('hex'), c.randomBytes(4).length, c.webcrypto.subtle !== undefined, c.getFips())",
    "zlib": "const z = require('zlib'); console.log(z.gunzipSync(z.gzipSync('hello')).toString())",
    "url and text": "console.log(new URL('http://a/b?c=1').searchParams.get('c'), new TextDecoder().decode(new TextEncoder().encode('ü')), require('util').format('%s %o', 'a', [1]), structuredClone({ a: 1 }))",
    "pipeline": "const { pipeline, Readable, Transform } = require('stream'); pipeline(Readable.from(['a', 'b']), new Transform({ transform(c, e, f) { f(null, String(c).toUpperCase()); } }), process.stdout, (e) => console.log(e))",
    "socket": "const net = require('net'); const s = net.createServer((c) => c.end('hi')).listen('./s.sock', () => net.connect('./s.sock').on('data', (d) => console.log(String(d))).on('close', () => s.close()))",
    "async local storage": "const { AsyncLocalStorage } = require('async_hooks'); const a = new AsyncLocalStorage(); a.run(5, () => setTimeout(() => console.log(a.getStore()), 1))",
    "finalization": "new FinalizationRegistry(() => {}).register({}, 1); new WeakRef({}); console.log('ok')",
    "wasm": "console.log(WebAssembly.validate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])))",
    "performance": "const { performance } = require('perf_hooks'); console.log(typeof performance.now(), performance.timeOrigin <= Date.now(), process.uptime() > 0, process.hrtime.bigint() > 0n)",
    "random": "console.log(Math.random() !== Math.random())",
    "fetch": "console.log(typeof fetch, typeof Request, typeof WebSocket, typeof navigator, typeof CustomEvent)",
    "module by package": ("import fs from 'fs'; import { x } from './own.js'; console.log(x, typeof require, import.meta.url.endsWith('/main.js'), this, typeof fs.readFileSync); await null; console.log('after await')", {"files": {"package.json": '{"type": "module"}', "own.js": "export const x = 5"}}),
    "module that throws": ("throw new Error('esm')", {"files": {"package.json": '{"type": "module"}'}}),
    "module that awaits for ever": ("await new Promise(() => {})", {"files": {"package.json": '{"type": "module"}'}}),
    "module that rejects": ("await Promise.reject(new Error('esm'))", {"files": {"package.json": '{"type": "module"}'}}),
    "module with syntax error": ("export let x = ;", {"files": {"package.json": '{"type": "module"}'}}),
    "module that imports what is not there": ("import './nothing.js'", {"files": {"package.json": '{"type": "module"}'}}),
    "module that imports a name that is not there": ("import { x } from './own.js'", {"files": {"package.json": '{"type": "module"}', "own.js": "export const y = 1"}}),
    "module and exit code": ("process.exitCode = 3; process.on('exit', (c) => console.log(c))", {"files": {"package.json": '{"type": "module"}'}}),
    "module that uses require": ("require('fs')", {"files": {"package.json": '{"type": "module"}'}}),
    "import in a script": "import fs from 'fs'; console.log(typeof fs.readFileSync)",
    "await in a script": "await null; console.log('x')",
    "import by call": ("import('./own.mjs').then((m) => console.log(m.default))", {"files": {"own.mjs": "export default 7"}}),
    "import by call of what is not there": "import('./nothing.mjs')",
    "json": ("import('./d.json', { with: { type: 'json' } }).then((m) => console.log(m.default))", {"files": {"d.json": "[1]"}}),
    "bad package": ("console.log(1)", {"files": {"package.json": "{"}}),
    "package of type commonjs": ("console.log(typeof require)", {"files": {"package.json": '{"type": "commonjs"}'}}),
    "imports of a package": ("console.log(require('#x'))", {"files": {"package.json": '{"imports": {"#x": "./own.js"}}', "own.js": "module.exports = 'own'"}}),
    "self reference": ("console.log(require('me/own'))", {"files": {"package.json": '{"name": "me", "exports": {"./own": "./own.js"}}', "own.js": "module.exports = 'own'"}}),
}  # fmt: skip


@functools.cache
def start():
    """Beside what it ends by, as in a box."""
    shutil.copy(BUILD / "exit.node", DIRECTORY.name)
    return shutil.copy(START, DIRECTORY.name)


class Waiting:
    """A node that waits, with pipes that are those of its call."""

    def __init__(self, place, environment, directory="/"):
        place.clear()
        place.path.mkdir()
        ours, self.words = os.pipe()
        pipes = [os.pipe() for _ in range(3)]
        given = [pipes[0][0], pipes[1][1], pipes[2][1]]
        redirect = f'exec "$@" 3<&{ours}' + (f" {ours}<&-" if ours != 3 else "")
        self.process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", "node", "-r", start(), str(place.path / "main.js")], cwd=directory or place.path, env=environment, pass_fds=[ours],
            stdin=given[0], stdout=given[1], stderr=given[2],
        )  # fmt: skip
        for fd in (ours, *given):
            os.close(fd)
        self.pipes = pipes[0][1], pipes[1][0], pipes[2][0]

    def cpu_ms(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e6

    def settle(self):
        """Until it waits for its words: files come only then, as in a box."""
        waits = pathlib.Path(f"/proc/{self.process.pid}/syscall")
        while waits.read_text().split()[1:2] != ["0x3"]:
            assert self.process.poll() is None
            time.sleep(0.01)
        return self.cpu_ms()

    def run(self, argv, env, data):
        self.settle()
        end = warm.collect(self.pipes, data)
        words = [str(len(argv)), *argv, *(f"{name}={value}" for name, value in env.items())]
        os.write(self.words, b"".join(os.fsencode(word) + b"\0" for word in words))
        os.close(self.words)
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.used_ms = (used.ru_utime + used.ru_stime) * 1e3
        return self.process.returncode, *end()


class Node:
    def __init__(self, home):
        self.place = warm.Place(home)
        self.environment = {**warm.ENVIRONMENT, "HOME": str(self.place.path)}

    def call(self, code, options):
        env = {**self.environment, **options.get("env", {})}
        return {"main.js": code, **options.get("files", {})}, [*options.get("args", [])], {name: value for name, value in env.items() if value is not None}, options.get("input", b"")

    def warm(self, code, options):
        files, args, env, data = self.call(code, options)
        waiting = Waiting(self.place, self.environment)
        before = waiting.settle()
        with self.place.filled(files) as there:
            began = time.perf_counter()
            status, out, err = waiting.run(["node", str(self.place.path / "main.js"), *args], env, data)
            wall = time.perf_counter() - began
        return warm.Done(status, out, err, there, cpu=waiting.used_ms - before, wall=wall * 1e3, pid=waiting.process.pid)

    def native(self, code, options):
        files, args, env, data = self.call(code, options)
        with self.place.filled(files) as there:
            process = subprocess.Popen(["node", str(self.place.path / "main.js"), *args], executable=NODE, cwd=self.place.path, env=env, stdin=-1, stdout=-1, stderr=-1)
            out, err = process.communicate(data, timeout=120)
        return warm.Done(process.returncode, out, err, there, pid=process.pid)


def outcome(done):
    """Without the process ids that node puts into its warnings."""
    status, out, err, files = done.outcome()
    return {"status": status, "out": re.sub(rb"\(node:\d+\)", b"(node:)", out), "err": re.sub(rb"\(node:\d+\)", b"(node:)", err), "files": files}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    return Node(tmp_path_factory.mktemp("node"))


def test_there_are_enough():
    assert len(SCRIPTS) >= 130


@pytest.mark.parametrize("name", SCRIPTS)
def test_as_native(node, name):
    code, options = SCRIPTS[name] if isinstance(SCRIPTS[name], tuple) else (SCRIPTS[name], {})
    assert outcome(node.warm(code, options)) == outcome(node.native(code, options))


ADD_ON = r"""
#include <unistd.h>
static __attribute__((destructor)) void bye(void) { (void)!write(1, "bye\n", 4); }
void *napi_register_module_v1(void *env, void *exports) { (void)env; return exports; }
"""


@pytest.mark.parametrize("end", ["", "process.exitCode = 5", "process.exit(6)", "throw 7"])
def test_an_add_on_of_the_scripts_own_is_asked_to_clean_up(node, tmp_path, end):
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "own.node", "-x", "c", "-"], input=ADD_ON.encode(), check=True)
    code = f"require('{tmp_path}/own.node'); console.log('here'); {end}"
    native = outcome(node.native(code, {}))
    assert native["out"] == b"here\nbye\n" and outcome(node.warm(code, {})) == native


@pytest.mark.parametrize("code", ["0", "3", "'4'", "255", "256", "-1", "undefined", "null"])
def test_exit_codes_are_as_native(node, code):
    script = f"process.exitCode = {code}; process.on('exit', (c) => console.log(c))"
    assert outcome(node.warm(script, {})) == outcome(node.native(script, {}))


def test_no_script(node):
    files = {"other.js": ""}
    for done in (node.warm("", {}), node.native("", {})):
        assert done.status == 0
    waiting = Waiting(node.place, node.environment)
    waiting.settle()
    with node.place.filled(files):
        warmed = waiting.run(["node", str(node.place.path / "main.js")], node.environment, b"")
    with node.place.filled(files):
        native = subprocess.run(["node", str(node.place.path / "main.js")], executable=NODE, cwd=node.place.path, env=node.environment, capture_output=True, timeout=60)
    assert warmed == (native.returncode, native.stdout, native.stderr)


def test_another_script(node):
    """It can only begin anew."""
    waiting = Waiting(node.place, node.environment)
    waiting.settle()
    with node.place.filled({"other.js": "console.log(process.argv.slice(1)); throw new Error('other')"}):
        warmed = waiting.run(["node", "other.js", "a"], node.environment, b"")
    with node.place.filled({"other.js": "console.log(process.argv.slice(1)); throw new Error('other')"}):
        native = subprocess.run(["node", "other.js", "a"], executable=NODE, cwd=node.place.path, env=node.environment, capture_output=True, timeout=60)
    assert warmed == (native.returncode, native.stdout, native.stderr)


# What is known to differ; docs/warm.md. Name: script, what a native one prints, what a waiting one prints.
KNOWN = {
    "handles": ("console.log(process._getActiveHandles().length)", b"0\n", b"2\n"),
    "what is loaded": ("console.log(process.moduleLoadList.includes('NativeModule zlib'))", b"false\n", b"true\n"),
    "command line in /proc": ("console.log(require('fs').readFileSync('/proc/self/cmdline', 'utf8').split('\\0')[1] === '-r')", b"false\n", b"true\n"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_differences(node, name):
    code, native, waiting = KNOWN[name]
    assert node.native(code, {}).out == native
    waits = Waiting(node.place, node.environment)
    waits.settle()
    with node.place.filled({"main.js": code}):
        assert waits.run(["node", str(node.place.path / "main.js")], node.environment, b"") == (0, waiting, b"")


@pytest.mark.parametrize("clock", ["process.uptime()", "performance.now() / 1000"])
def test_clocks_that_begin_with_the_process(node, clock):
    waits = Waiting(node.place, node.environment)
    waits.settle()
    time.sleep(1)
    with node.place.filled({"main.js": f"console.log({clock})"}):
        _, out, _ = waits.run(["node", str(node.place.path / "main.js")], node.environment, b"")
    assert float(out) > 1  # a native one has not been there for so long
    began = time.monotonic()
    assert float(node.native(f"console.log({clock})", {}).out) < time.monotonic() - began


def test_exit_listener_that_throws(node):
    """A single listener is called from another line of node's own code than one of many are; ours makes two of them."""
    code = "process.on('exit', () => { throw new Error('at exit'); })"
    waited, native = (outcome(done) for done in (node.warm(code, {}), node.native(code, {})))
    assert re.search(rb"node:events:\d+:\d+", native["err"]) and waited != native
    for one in (waited, native):
        one["err"] = re.sub(rb"node:events:\d+:\d+", b"node:events", one["err"])
    assert waited == native


@pytest.mark.parametrize("files", [{}, {"package.json": '{"type": "module"}'}, {"node_modules/x/index.js": ""}])
def test_waiting_in_the_directory_of_the_script(node, files):
    """Node has looked for a package.json there. If there is one now, it begins anew."""
    code = "console.log(typeof require, process.cwd()); throw new Error('x')"
    waiting = Waiting(node.place, node.environment, directory=None)
    waiting.settle()
    with node.place.filled({"main.js": code, **files}):
        waited = waiting.run(["node", str(node.place.path / "main.js")], node.environment, b"")
    native = node.native(code, {"files": files})
    assert waited == (native.status, native.out, native.err)


def test_it_ends_if_nobody_comes(node):
    waiting = Waiting(node.place, node.environment)
    waiting.settle()
    os.close(waiting.words)
    end = warm.collect(waiting.pipes)
    assert (waiting.process.wait(timeout=60), *end()) == (1, b"", b"")


def test_nothing_is_printed_before_the_call(node):
    waiting = Waiting(node.place, node.environment)
    waiting.settle()
    with node.place.filled({"main.js": ""}):
        assert waiting.run(["node", str(node.place.path / "main.js")], node.environment, b"") == (0, b"", b"")


def test_figures(node):
    """Processor time, since it depends least on what else the machine does: a waiting node needs a small part of what a new one needs."""
    waiting = [node.warm("console.log(1)", {}) for _ in range(5)]
    new = []
    for _ in range(5):
        with node.place.filled({"main.js": "console.log(1)"}):
            process = subprocess.Popen(["node", str(node.place.path / "main.js")], executable=NODE, cwd=node.place.path, env=node.environment, stdout=subprocess.DEVNULL)
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
            new.append((used.ru_utime + used.ru_stime) * 1e3)
    after = statistics.median(done.cpu for done in waiting)
    sys.stderr.write(f"node: {after:.1f} ms of processor time after the call, {statistics.median(done.wall for done in waiting):.1f} ms to its end; new: {statistics.median(new):.1f} ms\n")
    assert after < 0.4 * statistics.median(new)
