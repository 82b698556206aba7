'use strict';
/* What a node that was started ahead of its call does until the call comes: `node -r /path/start.js /sandbox/main.js`.
 *
 * As a preloaded module it runs when node itself is ready and before the script is looked for. It loads and tries what scripts
 * use first, then reads descriptor 3 to its end: words that end with NUL, the number of arguments, the arguments (the program's
 * name and the script's among them), then variables as NAME=VALUE; none at all if nobody will come any more. It makes the process what it would be if it had been started
 * with these, takes itself away, and returns; node goes on and runs the script as always, from where it always does: errors,
 * exit codes, stack traces and the choice between CommonJS and modules are node's own.
 *
 * Neither its file nor the working directory should lie beneath the script's directory until then: node remembers where it has looked
 * for a package.json and found none. What a script can notice is in docs/warm.md. */

const CONTROL = 3;
/* What most scripts that load anything load; the first time costs a millisecond or more each. */
const USUAL = ['assert', 'child_process', 'crypto', 'events', 'fs', 'fs/promises', 'os', 'path', 'perf_hooks', 'querystring', 'readline', 'stream',
  'string_decoder', 'timers/promises', 'url', 'util', 'zlib'];
/* Variables that node, V8, ICU or the C library reads once, when it begins: with another value of these it has to begin anew. */
const DECIDING = /^(NODE_|LD_|MALLOC_|GLIBC_|LC_|ICU_|UV_|(LANG|LANGUAGE|OPENSSL_CONF|SSL_CERT_DIR|SSL_CERT_FILE|PATH)$)/;

const began = process.cwd();
const fs = require('fs');
const Module = require('module');
const path = require('path');
const vm = require('vm');

/* --- warming up --- */

/* stdout and stderr, which the first console.log() opens, are what they will be: pipes of the box. Nothing is written. */
function warmStream() {
  process.stdout.write('');
  process.stdout.write = () => true;
  console.log('%s %d %j', 'text', 1.5, { a: [1, 'b', null] }, [new Map([[1, 2]]), new Error('none'), () => {}, Symbol('s')]);
  delete process.stdout.write;
}

/* So that none is due while a script runs for a few milliseconds. */
function collectGarbage() {
  const v8 = require('v8');
  v8.setFlagsFromString('--expose-gc');
  const collect = vm.runInNewContext('gc');
  v8.setFlagsFromString('--no-expose-gc');
  collect();
}

function warmUp() {
  for (const name of USUAL)
    require(name);
  vm.runInThisContext('(function () { class A { #x = 1; get x() { return this.#x; } } return [...[1, 2]].map((x) => `${x}`).concat(new A().x); })')();
  warmStream();
  collectGarbage();
  const env = Object.entries(process.env);
  if (!mustBeginAnew(process.argv, env))
    setEnvironment(env);
}

/* --- the call --- */

function readWords() {
  const pieces = [];
  for (;;) {
    const piece = Buffer.allocUnsafe(65536);
    const length = fs.readSync(CONTROL, piece, 0, piece.length, null);
    if (!length)
      break;
    pieces.push(piece.subarray(0, length));
  }
  fs.closeSync(CONTROL);
  const words = Buffer.concat(pieces).toString().split('\0');
  words.pop();
  if (!words.length)
    process.reallyExit(1);
  const count = parseInt(words.shift(), 10);
  return { argv: words.slice(0, count), env: words.slice(count).map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]) };
}

/* Only what differs, unless the order does. */
function setEnvironment(env) {
  const now = Object.entries(process.env);
  const same = now.length <= env.length && now.every(([name, value], i) => name === env[i][0] && value === env[i][1]);
  if (!same)
    for (const [name] of now)
      delete process.env[name];
  for (const [name, value] of same ? env.slice(now.length) : env)
    process.env[name] = value;
  if (now.length !== env.length || !same)
    Module._initPaths(); // by HOME and NODE_PATH
}

/* A new node in its place, as its child: node cannot execute another program. */
function beginAnew(argv, env) {
  const done = require('child_process').spawnSync(process.execPath, argv.slice(1),
    { argv0: argv[0], cwd: path.dirname(process.argv[1]), env: Object.fromEntries(env), stdio: 'inherit' });
  if (done.signal)
    process.kill(process.pid, done.signal);
  process.reallyExit(done.status ?? 1);
}

function mustBeginAnew(argv, env) {
  const home = path.dirname(process.argv[1]);
  if ((began + '/').startsWith(home + '/') && fs.existsSync(home + '/package.json'))
    return true;
  const deciding = (list) => list.filter(([name]) => DECIDING.test(name)).map((pair) => pair.join('=')).sort().join('\0');
  return path.resolve(home, argv[1] ?? '') !== process.argv[1] || deciding(env) !== deciding(Object.entries(process.env));
}

/* --- the end --- */

/* By the kernel alone. A node that loads no add-ons has its own, slower way. */
const leave = {};
function learnToLeave() {
  try {
    process.dlopen(Object.assign(leave, { exports: {} }), path.join(__dirname, 'exit.node'));
  } catch {
    delete leave.exports;
  }
}

/* How many functions are under way, up to three. */
function depth() {
  const { prepareStackTrace, stackTraceLimit } = Error;
  const seen = {};
  try {
    Error.stackTraceLimit = 3;
    Error.prepareStackTrace = (_, sites) => sites.length;
    Error.captureStackTrace(seen, depth);
    return seen.stack;
  } finally {
    Error.prepareStackTrace = prepareStackTrace;
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/* When everything is over node takes itself apart, which costs more than most scripts and which nobody can see: so the last listener of
 * 'exit' ends the process. It is none that a script could find among the listeners. It leaves alone what does not come from node itself:
 * process.exit() ends by itself, and an exception that nobody has caught is printed only after the listeners were called. Who has loaded
 * code of another's may count on that being asked to clean up. */
function endAtOnce() {
  const end = process.reallyExit;
  const last = (code) => {
    if (depth() !== 2) // this, and process.emit()
      return;
    if (leave.exports && !Object.keys(Module._cache).some((name) => name.endsWith('.node')))
      leave.exports((process.exitCode ?? code) | 0);
    end.call(process, process.exitCode ?? code);
  };
  let asked = false;
  const withLast = (listeners) => {
    if (asked || !process._exiting)
      return listeners;
    asked = true; // by whoever calls them; all others see what there is
    return [].concat(listeners ?? [], last);
  };
  Object.setPrototypeOf(process._events, {
    __proto__: null,
    get exit() {
      return withLast(undefined);
    },
    set exit(listeners) {
      Object.defineProperty(this, 'exit', { configurable: true, enumerable: true, get: () => withLast(listeners), set: (value) => listeners = value });
    },
  });
}

/* --- no trace --- */

function forget() {
  delete Module._cache[__filename];
  for (const key of Object.keys(Module._pathCache))
    if (Module._pathCache[key] === __filename)
      delete Module._pathCache[key];
  process.execArgv.length = 0;
  process._preload_modules.length = 0;
}

function begin() {
  warmUp();
  learnToLeave();
  const { argv, env } = readWords();
  if (mustBeginAnew(argv, env))
    beginAnew(argv, env);
  setEnvironment(env);
  process.chdir(path.dirname(process.argv[1]));
  process.argv.splice(2, Infinity, ...argv.slice(2));
  forget();
  endAtOnce();
}

if (process.chdir.disabled) // in a worker of the script's, which preloads it again
  forget();
else
  begin();
