'use strict';
// What a node runs that waits for its call: `node -r /etc/glovebox/start.js /sandbox/main.js`, in a box where all confinement is in
// place. A module that is required beforehand runs when node has started and before it looks for the script; so node itself runs the
// script, as always, when this returns. It reads the call from descriptor 3 (NUL-terminated: how many arguments, the arguments, the
// environment), and takes away what would tell that it was here.

// The stream that the script writes to first, made now: it is the box's pipe, and does not change any more.
const ready = [process.stdout, require('vm'), require('path'), require('util')];

function words() {
  const fs = require('fs');
  const pieces = [];
  const piece = Buffer.alloc(65536);
  for (let n; (n = fs.readSync(3, piece, 0, piece.length, null)) > 0; ) pieces.push(Buffer.from(piece.subarray(0, n)));
  fs.closeSync(3);
  return Buffer.concat(pieces).toString().split('\0');
}

function become(argv, env) {
  const given = new Map(env.map((variable) => [variable.slice(0, variable.indexOf('=')), variable.slice(variable.indexOf('=') + 1)]));
  for (const name of Object.keys(process.env)) if (!given.has(name)) delete process.env[name];
  for (const [name, value] of given) if (process.env[name] !== value) process.env[name] = value;
  process.argv.splice(2, Infinity, ...argv.slice(2)); // node has made a path of the script already
  process.execArgv.splice(0, Infinity);
  process._preload_modules.splice(0, Infinity);
  delete require.cache[__filename];
}

if (require('worker_threads').isMainThread && ready) {
  const [count, ...rest] = words();
  if (!rest.length) process.exit(1); // nobody will come any more
  become(rest.slice(0, Number(count)), rest.slice(Number(count), -1));
}
