const fs = require('fs');
const words = fs.readFileSync(3).toString().split('\0');
fs.closeSync(3);
const argc = Number(words[0]);
process.argv = [process.execPath, ...words.slice(2, 1 + argc)];
process.argv[1] = '/sandbox/main.js';
require('module').runMain('/sandbox/main.js');
