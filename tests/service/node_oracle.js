// What Node's own HTTP server understands of raw bytes. Reads inputs from stdin (4 bytes of length, big-endian, then the bytes), each a
// connection of its own, ended by the client; prints one line of JSON for each: the requests that were complete, and how it ended.
// The first line says which Node this is and which methods it knows.
'use strict';

const http = require('http');
const { Duplex } = require('stream');

class MemorySocket extends Duplex {
    constructor() {
        super({ allowHalfOpen: true });
        this.verdict = { messages: [], end: 'clean', code: '' };
    }
    _read() {}
    _write(chunk, encoding, callback) {
        callback();
    }
    setTimeout() {
        return this;
    }
}

const hex = (text) => Buffer.from(text ?? '', 'latin1').toString('hex'); // Node 18 has no name for the method PRI

function take(request, response) {
    const body = [];
    request.on('data', (chunk) => body.push(chunk));
    request.on('end', () => {
        request.socket.verdict.messages.push({
            method: hex(request.method),
            target: hex(request.url),
            minor: request.httpVersionMinor,
            headers: request.rawHeaders.map(hex),
            body: Buffer.concat(body).toString('hex'),
        });
        response.end();
    });
    request.on('error', () => {});
}

// Strict parsing is the default; the limits are set aside so that only the reading is compared.
const server = http.createServer({ insecureHTTPParser: false, requireHostHeader: false, maxHeaderSize: 1 << 20, keepAliveTimeout: 0 });
server.maxHeadersCount = 0;
server.on('request', take);
server.on('checkContinue', take);
server.on('checkExpectation', take);
server.on('clientError', (error, socket) => {
    const verdict = socket.verdict;
    if (verdict.end === 'clean') {
        verdict.end = error.code === 'HPE_INVALID_EOF_STATE' ? 'incomplete' : 'reject';
        verdict.code = error.code;
    }
    setImmediate(() => socket.destroy()); // requests before the fault are still to be handed out
});

function judge(bytes) {
    return new Promise((resolve) => {
        const socket = new MemorySocket();
        const finish = () => resolve(socket.verdict);
        socket.on('error', () => {});
        socket.on('close', finish);
        server.emit('connection', socket);
        socket.push(bytes);
        // The end of the input comes after all of it was read, as on a real connection.
        setImmediate(() => socket.push(null));
    });
}

async function main() {
    const parts = [];
    for await (const part of process.stdin) parts.push(part);
    const input = Buffer.concat(parts);
    const lines = [JSON.stringify({ version: process.version, methods: http.METHODS })];
    for (let at = 0; at < input.length; ) {
        const length = input.readUInt32BE(at);
        lines.push(JSON.stringify(await judge(input.subarray(at + 4, at + 4 + length))));
        at += 4 + length;
    }
    process.stdout.write(lines.join('\n') + '\n');
}

main();
