"""Ordinary programs run unmodified, with the default limits, under the system call filter that the receipt names.

Each script checks itself and prints `ok` at its end, so one box proves many features and a failure shows the program's own words.
"""

import struct
import zlib

import pytest

PROFILES = {"default"}  # every seccomp profile there is; a new one must be run here too


def works(result):
    assert result["status"] == "success", (result["status"], result["kill_reason"], result["stderr"][-2000:], result["stdout"][-500:])
    assert result["enforced"]["seccomp"] in PROFILES and not result["enforced"]["degraded"]
    return result["stdout"]


def says_ok(result):
    assert works(result).endswith("ok\n"), result["stdout"]
    return result


# --- Python: the standard library ---

PYTHON = {}

PYTHON["threads"] = """
import threading, queue, time
from concurrent.futures import ThreadPoolExecutor
q, lock, total = queue.Queue(), threading.Lock(), [0]
def work():
    while (n := q.get()) is not None:
        with lock: total[0] += n
threads = [threading.Thread(target=work) for _ in range(20)]
for t in threads: t.start()
for n in range(1000): q.put(n)
for _ in threads: q.put(None)
for t in threads: t.join()
assert total[0] == 499500
with ThreadPoolExecutor(16) as pool: assert sum(pool.map(lambda n: n * n, range(100))) == 328350
barrier = threading.Barrier(4, timeout=20)
with ThreadPoolExecutor(4) as pool: assert sorted(f.result() for f in [pool.submit(barrier.wait) for _ in range(4)]) == [0, 1, 2, 3]
event = threading.Event(); timer = threading.Timer(0.01, event.set); timer.start(); assert event.wait(20)
"""

PYTHON["multiprocessing"] = """
import multiprocessing as mp, os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
def square(n): return n * n
def put(q, value, array, lock):
    with lock: value.value += 1
    array[0] = 7
    q.put(os.getpid())
def talk(conn): conn.send(conn.recv() * 2); conn.close()
def fill(name): m = shared_memory.SharedMemory(name); m.buf[:5] = b'hello'; m.close()
if __name__ == '__main__':
    for method in ('fork', 'spawn'):
        c = mp.get_context(method)
        with c.Pool(2) as pool: assert pool.map(square, range(20)) == [n * n for n in range(20)]
        q, value, array, lock = c.Queue(), c.Value('i', 0), c.Array('d', 4), c.Lock()
        p = c.Process(target=put, args=(q, value, array, lock)); p.start()
        assert q.get(timeout=20) != os.getpid()
        p.join(); assert (p.exitcode, value.value, array[0]) == (0, 1, 7)
        ours, theirs = c.Pipe(); p = c.Process(target=talk, args=(theirs,)); p.start(); ours.send('ab'); assert ours.recv() == 'abab'; p.join()
    m = shared_memory.SharedMemory(create=True, size=1 << 20)
    p = mp.Process(target=fill, args=(m.name,)); p.start(); p.join(); assert bytes(m.buf[:5]) == b'hello'; m.close(); m.unlink()
    with mp.Manager() as manager:
        d = manager.dict(a=1); d['b'] = [2]; assert dict(d) == {'a': 1, 'b': [2]}
        l = manager.list(range(3)); l.append(3); assert list(l) == [0, 1, 2, 3]
    with ProcessPoolExecutor(2) as pool: assert list(pool.map(square, [3, 4])) == [9, 16]
    print('ok')
"""

PYTHON["processes"] = """
import subprocess, os, sys, signal, time
assert subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout == 'hi\\n'
assert subprocess.run('exit 3', shell=True).returncode == 3
assert subprocess.check_output([sys.executable, '-c', 'print(input())'], input=b'in') == b'in\\n'
try: subprocess.run(['sleep', '30'], timeout=0.1); assert False
except subprocess.TimeoutExpired: pass
p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
assert p.communicate(b'x' * 300000)[0] == b'x' * 300000
p = subprocess.Popen(['sleep', '30']); p.send_signal(signal.SIGTERM); assert p.wait() == -15
try: subprocess.run(['no-such-program']); assert False
except FileNotFoundError: pass
r, w = os.pipe(); pid = os.fork()
if pid == 0: os.write(w, b'child'); os._exit(5)
assert os.read(r, 10) == b'child' and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
assert os.waitstatus_to_exitcode(os.system('exit 4')) == 4
pid = os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 6'], os.environ); assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6
fd = os.pidfd_open(os.spawnlp(os.P_NOWAIT, 'true', 'true')); import select; assert select.select([fd], [], [], 20)[0]
assert os.getuid() == 1000 and os.getcwd() == '/sandbox' and os.path.expanduser('~') == '/sandbox'
import pwd, getpass, socket, platform
assert pwd.getpwuid(1000).pw_name == getpass.getuser() == 'sandbox' and socket.gethostname() == platform.node()
os.sched_getaffinity(0), os.cpu_count(), os.nice(1), os.times(), os.getloadavg(), os.sysconf('SC_PHYS_PAGES')
"""

PYTHON["asyncio"] = """
import asyncio, signal, os, socket
async def serve(reader, writer):
    writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
async def main():
    server = await asyncio.start_unix_server(serve, '/tmp/s')
    async def ask(n):
        r, w = await asyncio.open_unix_connection('/tmp/s'); w.write(b'hello %d\\n' % n); line = await r.readline(); w.close(); return line
    assert await asyncio.gather(*map(ask, range(10))) == [b'HELLO %d\\n' % n for n in range(10)]
    server.close()
    p = await asyncio.create_subprocess_exec('cat', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert (await p.communicate(b'sub'))[0] == b'sub'
    p = await asyncio.create_subprocess_shell('echo out; exit 3', stdout=asyncio.subprocess.PIPE)
    assert await p.stdout.read() == b'out\\n' and await p.wait() == 3
    loop, got = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, got.set); os.kill(os.getpid(), signal.SIGUSR1); await asyncio.wait_for(got.wait(), 20)
    assert await asyncio.to_thread(lambda: 5) == 5
    try: await asyncio.wait_for(asyncio.sleep(30), 0.05); assert False
    except asyncio.TimeoutError: pass
    async with asyncio.timeout(20): await asyncio.Queue(1).put(1)
asyncio.run(main())
"""

PYTHON["files"] = """
import sqlite3, mmap, tempfile, pathlib, shutil, zipfile, tarfile, gzip, bz2, lzma, os, glob, fcntl, csv, json, pickle, shelve, configparser
db = sqlite3.connect('a.db'); db.execute('pragma journal_mode=wal'); db.execute('create table t(n integer primary key, s text)')
with db: db.executemany('insert into t(s) values(?)', [(str(n),) for n in range(1000)])
other = sqlite3.connect('a.db'); assert other.execute('select count(*), max(n) from t').fetchone() == (1000, 1000)
db.execute('create virtual table f using fts5(x)'); db.close(); other.close()
with open('m', 'wb+') as f:
    f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 0); m[:3] = b'abc'; m.flush(); assert f.read(3) == b'abc'; m.close()
a = mmap.mmap(-1, 4096)
if os.fork() == 0: a[:1] = b'x'; os._exit(0)
os.wait(); assert a[:1] == b'x'
with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile(dir=d) as n, tempfile.TemporaryFile() as t, tempfile.SpooledTemporaryFile(10) as s:
    t.write(b'1'); s.write(b'2' * 20); assert os.path.exists(n.name) and d.startswith('/tmp/')
p = pathlib.Path('deep/er/still'); p.mkdir(parents=True); (p / 'f.txt').write_text('\\u00e9'); (p / 'l').symlink_to('f.txt')
assert (p / 'l').read_text() == '\\u00e9' and [x.name for x in pathlib.Path('.').rglob('*.txt')] == ['f.txt'] == [os.path.basename(x) for x in glob.glob('**/*.txt', recursive=True)]
os.link(p / 'f.txt', 'hard'); os.chmod('hard', 0o600); assert os.stat('hard').st_nlink == 2; os.utime('hard', (1e9, 1e9)); os.rename('hard', 'soft')
shutil.copytree('deep', 'copy', symlinks=True); shutil.make_archive('arch', 'zip', 'copy'); shutil.rmtree('deep'); assert shutil.disk_usage('.').free > 0
with zipfile.ZipFile('arch.zip') as z: assert 'er/still/f.txt' in z.namelist() and z.testzip() is None
with tarfile.open('t.tar.gz', 'w:gz') as t: t.add('copy')
with tarfile.open('t.tar.gz') as t: t.extractall('un'); assert pathlib.Path('un/copy/er/still/f.txt').exists()
for c in (gzip, bz2, lzma): assert c.decompress(c.compress(b'z' * 10000)) == b'z' * 10000
with open('lock', 'w') as f: fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)
with shelve.open('sh') as s: s['k'] = [1, 2]
with shelve.open('sh') as s: assert s['k'] == [1, 2]
fd = os.memfd_create('x'); os.write(fd, b'mem'); os.lseek(fd, 0, 0); assert os.read(fd, 9) == b'mem'
assert os.sendfile(os.open('out', os.O_CREAT | os.O_WRONLY), os.open('a.db', 0), 0, 4096) == 4096
assert os.copy_file_range(os.open('a.db', 0), os.open('out2', os.O_CREAT | os.O_WRONLY), 4096) == 4096
"""

PYTHON["system calls of every day"] = """
import ctypes, ctypes.util, signal, time, selectors, socket, os, hashlib, ssl, random, secrets, uuid, logging, decimal, fractions, statistics, itertools
import datetime, zoneinfo, re, struct, array, contextvars, weakref, gc, inspect, ast, dis, traceback, faulthandler, resource, tracemalloc, locale, unicodedata, textwrap
import urllib.request, http.client, email.message, xml.etree.ElementTree, html.parser, argparse, dataclasses, enum, typing, heapq, bisect, base64, zlib, curses, readline
libc = ctypes.CDLL(None, use_errno=True); assert libc.getpid() == os.getpid() and libc.abs(-3) == 3
assert ctypes.CDLL(ctypes.util.find_library('m') or 'libm.so.6').cos
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
numbers = (ctypes.c_int * 4)(4, 2, 3, 1); libc.qsort(numbers, 4, 4, callback); assert list(numbers) == [1, 2, 3, 4]
hits = []
signal.signal(signal.SIGALRM, lambda *a: hits.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
while len(hits) < 3: signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)
assert signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1
a, b = socket.socketpair(); s = selectors.DefaultSelector(); s.register(a, selectors.EVENT_READ); b.send(b'x'); assert s.select(20)[0][0].fileobj is a
r, w = os.pipe(); socket.send_fds(a, [b'f'], [r]); fd = socket.recv_fds(b, 1, 1)[1][0]; os.write(w, b'passed'); assert os.read(fd, 9) == b'passed'
assert hashlib.sha256(b'x').hexdigest()[:4] == '2d71' and hashlib.scrypt(b'a', salt=b'b', n=2, r=1, p=1) and hashlib.pbkdf2_hmac('sha1', b'a', b'b', 10)
assert ssl.create_default_context().cert_store_stats()['x509_ca'] >= 0
assert len({uuid.uuid4(), uuid.uuid1(), secrets.token_hex(), random.SystemRandom().random()}) == 4 and len(os.urandom(8) + open('/dev/urandom', 'rb').read(8)) == 16
logging.basicConfig(filename='log', level='INFO'); logging.info('hello'); assert 'hello' in open('log').read()
decimal.getcontext().prec = 50; assert str(decimal.Decimal(2).sqrt()).startswith('1.4142135623730950488016887242096980785696718753')
assert fractions.Fraction(1, 3) + fractions.Fraction(1, 6) == fractions.Fraction(1, 2) and statistics.stdev([1, 2, 3]) == 1
assert datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset() == datetime.timedelta(hours=2)
assert time.monotonic() > 0 and time.thread_time() >= 0 and time.strftime('%Y', time.gmtime(0)) == '1970' and time.tzname
resource.getrusage(resource.RUSAGE_SELF); resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); tracemalloc.start(); faulthandler.enable()
import sys; sys.setrecursionlimit(5000)
def deep(n): return n and deep(n - 1)
deep(4000)
"""


@pytest.mark.parametrize("name", PYTHON)
def test_python_standard_library(gb, name):
    code = PYTHON[name]
    says_ok(gb.python(code if code.rstrip().endswith("print('ok')") else code + "\nprint('ok')\n"))


# --- Python: numbers and pictures ---


def test_numpy_works_with_the_default_limits(gb):
    says_ok(gb.python("""
import numpy as np
rng = np.random.default_rng(1); a = rng.random((400, 400))
assert np.allclose(a @ np.linalg.inv(a), np.eye(400)) and np.linalg.svd(a)[1].shape == (400,)
w, v = np.linalg.eigh(a + a.T); assert np.allclose((a + a.T) @ v, v * w) and np.allclose(a @ np.linalg.solve(a, np.ones(400)), 1)
x = rng.random(4096); assert np.allclose(np.fft.ifft(np.fft.fft(x)).real, x)
np.save('a.npy', a); assert np.array_equal(np.load('a.npy', mmap_mode='r'), a)
assert np.sort(rng.integers(0, 1 << 40, 100000))[0] >= 0 and np.random.rand(3).shape == (3,)
print('ok')"""))


def test_pandas_works_with_the_default_limits(gb, tmp_path):
    (tmp_path / "in.csv").write_text("city,n,when\n" + "".join(f"{c},{n},2024-01-{n % 28 + 1:02}\n" for n in range(2000) for c in "ab"))
    result = gb.python(
        """
import pandas as pd
d = pd.read_csv('in.csv', parse_dates=['when']); assert len(d) == 4000
g = d.groupby('city').agg(total=('n', 'sum'), mean=('n', 'mean')); assert g.total.tolist() == [1999000] * 2
assert len(d.merge(g, on='city')) == 4000 and d.pivot_table(index=d.when.dt.day, columns='city', values='n').shape == (28, 2)
assert d.set_index('when').n.resample('W').sum().sum() == 3998000 and d.n.rolling(3).mean().notna().sum() == 3998
g.to_csv('out.csv'); d.to_json('out.json'); d.to_pickle('out.pkl'); assert pd.read_pickle('out.pkl').equals(d)
import sqlite3; d.to_sql('t', sqlite3.connect('x.db')); assert d.describe().shape[0] >= 7
print('ok')""",
        *("--file", tmp_path / "in.csv", "--out", "out.csv", "--out-dir", tmp_path),
    )
    says_ok(result)
    assert (tmp_path / "out.csv").read_text() == "city,total,mean\na,1999000,999.5\nb,1999000,999.5\n"


def png_size(data):
    """Checks a PNG's every chunk; returns (width, height)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds, pixels, size = 8, [], b"", None
    while at < len(data):
        (length,), kind = struct.unpack_from(">I", data, at), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        size = struct.unpack_from(">II", body) if kind == b"IHDR" else size
        pixels += body if kind == b"IDAT" else b""
        kinds.append(kind)
        at += 12 + length
    assert kinds[0] == b"IHDR" and kinds[-1] == b"IEND"
    assert len(zlib.decompress(pixels)) == size[1] * (1 + 4 * size[0])  # one filter byte a row, RGBA
    return size


def test_matplotlib_plot_comes_back_as_png_with_the_default_limits(gb, tmp_path):
    result = gb.python(
        """
import matplotlib; matplotlib.use('Agg')
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(4, 3), dpi=100)
ax.plot([1, 4, 9]); ax.bar([0, 1], [3, 5]); ax.set_title('a title: $x^2$'); ax.legend(['l'])
fig.savefig('plot.png'); fig.savefig('plot.svg'); fig.savefig('plot.pdf')
print('ok')""",
        *("--out", "*.png", "--out-dir", tmp_path),
    )
    says_ok(result)
    assert [f["name"] for f in result["files"]] == ["plot.png"]
    assert png_size((tmp_path / "plot.png").read_bytes()) == (400, 300)


# --- node ---

NODE = """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (!isMainThread) { parentPort.postMessage(workerData * 2); return; }
if (process.argv[2] === 'child') { process.on('message', m => { process.send(m + 1); process.disconnect(); }); return; }
const assert = require('assert'), cp = require('child_process'), fs = require('fs'), crypto = require('crypto'), os = require('os'), net = require('net');
const { pipeline } = require('stream/promises'), { promisify } = require('util'), zlib = require('zlib'), timers = require('timers/promises');
const worker = n => new Promise((ok, no) => { const w = new Worker(__filename, { workerData: n }); w.on('message', ok); w.on('error', no); });
const once = (e, n) => new Promise((ok, no) => { e.once(n, ok); if (n !== 'error') e.once('error', no); });
(async () => {
  assert.deepStrictEqual(await Promise.all([1, 2, 3, 4].map(worker)), [2, 4, 6, 8]);
  const shared = new Int32Array(new SharedArrayBuffer(4)); Atomics.add(shared, 0, 5); assert.strictEqual(shared[0], 5);
  assert.strictEqual(cp.execSync('echo hi | tr a-z A-Z').toString(), 'HI\\n');
  assert.strictEqual((await promisify(cp.execFile)('node', ['-p', '6*7'])).stdout, '42\\n');
  const cat = cp.spawn('cat'); cat.stdin.end('data'); assert.strictEqual(String(await once(cat.stdout, 'data')), 'data');
  const child = cp.fork(__filename, ['child']); child.send(41); assert.strictEqual(await once(child, 'message'), 42);
  const sleeper = cp.spawn('sleep', ['30']); sleeper.kill(); assert.strictEqual((await once(sleeper, 'exit')), null);
  await fs.promises.mkdir('a/b', { recursive: true }); await fs.promises.writeFile('a/b/f', 'x'.repeat(1 << 20));
  assert.strictEqual((await fs.promises.stat('a/b/f')).size, 1 << 20); fs.symlinkSync('f', 'a/b/l'); fs.readdirSync('.'); assert.throws(() => fs.watch('a'), { code: 'ENOSYS' }); fs.watchFile('a', () => 0); fs.unwatchFile('a');
  await pipeline(fs.createReadStream('a/b/f'), zlib.createGzip(), fs.createWriteStream('f.gz'));
  assert.strictEqual(zlib.gunzipSync(fs.readFileSync('f.gz')).length, 1 << 20);
  await fs.promises.rm('a', { recursive: true }); assert(!fs.existsSync('a'));
  assert.strictEqual(crypto.createHash('sha256').update('x').digest('hex').slice(0, 4), '2d71'); assert.strictEqual(crypto.randomBytes(9).length, 9);
  assert.strictEqual((await promisify(crypto.scrypt)('a', 'b', 32)).length, 32); crypto.randomUUID(); crypto.generateKeyPairSync('ed25519');
  const server = net.createServer(s => s.end('unix')).listen('/tmp/node.sock'); await once(server, 'listening');
  assert.strictEqual(String(await once(net.connect('/tmp/node.sock'), 'data')), 'unix'); server.close();
  let ticks = 0; for await (const _ of timers.setInterval(2)) if (++ticks === 5) break;
  await timers.setTimeout(5); await timers.setImmediate(); await new Promise(process.nextTick);
  assert(process.memoryUsage().heapUsed > 0 && os.tmpdir() === '/tmp' && os.userInfo().username === 'sandbox' && os.hostname());
  process.once('SIGUSR2', () => console.log('ok')); process.kill(process.pid, 'SIGUSR2'); await timers.setTimeout(50);
})().catch(e => { console.error(e); process.exit(1); });
"""


def test_node_works_with_the_default_limits(gb):
    says_ok(gb.json("--lang", "node", "-c", NODE))


# --- shells and tools ---


def test_bash(gb):
    result = gb.json(
        "--lang",
        "bash",
        "-c",
        r"""set -euo pipefail
seq 1 100 | grep 7 | sort -rn | head -3 | tr '\n' ' '; echo
cat <<HERE
sum $((3 * 4)) $(echo nested `echo deep`)
HERE
cat <<<"string"
diff <(printf 'a\nb\n') <(printf 'a\nc\n') || echo differ
echo to-tee | tee >(cat > side) > /dev/null; while [ ! -s side ]; do sleep 0.01; done; cat side
array=(one two three); declare -A map=([k]=v); echo "${#array[@]} ${array[-1]} ${map[k]} ${array[@]:1:1}"
(sleep 0.05; exit 3) & job=$!; wait $job || echo "job $?"
mkfifo pipe; echo through > pipe & read -r line < pipe; echo "$line"; wait
coproc cat; echo co >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "$line"
exec 3> three; echo fd3 >&3; exec 3>&-; cat three
trap 'echo trapped' USR1; kill -USR1 $$
timeout 0.1 sleep 30 || echo "timeout $?"
printf '%s\n' {a..c}{1,2} | paste -sd,
f() { local n=$1; ((n)) && f $((n - 1)) || echo bottom; }; f 50
[[ abc =~ ^a(.)c$ ]] && echo "${BASH_REMATCH[1]}"
trap 'echo ok' EXIT""",
    )
    lines = works(result).splitlines()
    wanted = ["97 87 79 ", "sum 12 nested deep", "string", "2c2", "< b", "---", "> c", "differ", "to-tee", "3 three v two", "job 3", "through", "co"]
    assert lines == wanted + ["fd3", "trapped", "timeout 124", "a1,a2,b1,b2,c1,c2", "bottom", "b", "ok"]
    assert result["stderr"] == ""


def test_sh_and_text_tools(gb):
    result = gb.sh(r"""set -eu
mkdir -p d/sub; printf 'b 2\na 1\nc 3\n' > d/f; sort d/f | awk '{s += $2} END {print s}'; sed -n 's/^a \(.*\)/<\1>/p' d/f
cut -d' ' -f1 d/f | sort -u | xargs echo; wc -l < d/f; uniq -c d/f | head -1; tr a-z A-Z < d/f | tail -1
find d -type f -name f -exec grep -c a {} +; find d -type d | sort | tail -1
tar czf d.tgz d; gzip -k d/f; zcat d/f.gz | cmp - d/f; mv d e; tar xzf d.tgz; rm d/f; tar xOf d.tgz d/f | head -1
cp -a e g; diff -r e g; chmod 600 g/f; stat -c %a g/f; ln -s g l; readlink -f l/f; touch -d @0 g/f; date -u -r g/f +%Y
sha256sum g/f | cut -c1-4; dd if=/dev/zero of=z bs=1k count=4 2>/dev/null; od -An -tx1 -N2 z; split -b 1k z z.; ls z.* | wc -l; df . > /dev/null; du -k z
i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done; echo $i; test "$(id -u):$(whoami)" = 1000:sandbox; env | grep -c ^PATH=; mktemp > /dev/null
printf 'all: a b\n\t@cat a b\na b:\n\t@echo made $@ > $@\n' > Makefile; make -j2
perl -MPOSIX -MData::Dumper -e 'my %h = (a => [1, 2]); my $p = open(my $f, "-|", "echo piped"); print <$f>; print join(",", map { $_ ** 2 } @{$h{a}}), "\n"; my $k = fork // die; exit 7 unless $k; waitpid $k, 0; print $? >> 8, "\n"'
echo ok""")
    lines = works(result).splitlines()
    assert [line.split() for line in lines] == [
        ["6"], ["<1>"], ["a", "b", "c"], ["3"], ["1", "b", "2"], ["C", "3"], ["1"], ["d/sub"], ["b", "2"], ["600"], ["/sandbox/g/f"], ["1970"],
        [lines[12]], ["00", "00"], ["4"], ["4", "z"], ["3"], ["1"], ["made", "a"], ["made", "b"], ["piped"], ["1,4"], ["7"], ["ok"],
    ]  # fmt: skip


C_PROGRAM = r"""
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int count;
static void *work(void *arg) { for (int i = 0; i < 1000; i++) count++; return arg; }
int main(int argc, char **argv)
{
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        if (pthread_create(&t[i], NULL, work, NULL)) return 1;
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(s, 1, 0);
    if (!fork()) { sem_post(s); _exit(3); }
    int status;
    sem_wait(s);
    wait(&status);
    printf("%d %d %.3f %s\n", count, WEXITSTATUS(status), sqrt(argc), argv[1]);
}
"""


def test_gcc_compiles_and_the_program_runs(gb, tmp_path):
    (tmp_path / "a.c").write_text(C_PROGRAM)
    code = "gcc -O2 -g -Wall -Werror -pthread a.c -o a -lm && ./a arg && gcc -static -c a.c -o a.o && ar rc lib.a a.o && nm lib.a | grep -c ' T main' && echo ok"
    result = says_ok(gb.json("--lang", "bash", "--file", tmp_path / "a.c", "-c", code))
    assert result["stdout"] == "8000 3 1.414 arg\n1\nok\n"


def test_git(gb):
    result = gb.sh("""set -eu
git config --global user.name Ann; git config --global user.email ann@example.com
git init -q -b main repo; cd repo; echo one > f; git add f; git commit -qm first; git checkout -qb side; echo two >> f; git commit -qam second
git checkout -q main; echo three > g; git add g; git commit -qm third; git merge -q --no-edit side; git log --format=%s main | sort | tr '\\n' ' '
git gc -q; git fsck --strict 2>&1; git clone -q . ../copy; git -C ../copy status --short; git stash list; git diff HEAD~1 --stat | tail -1; echo ok""")
    assert "first second third" in says_ok(result)["stdout"] and "1 file changed" in result["stdout"]


def test_a_program_after_dashes_needs_no_shell(gb):
    assert works(gb.json("--", "printf", "%s|", "a b", "$HOME", "*", "")) == "a b|$HOME|*||"


def test_standard_streams_by_name(gb):
    """Shell scripts write to /dev/stderr all the time; the pipes behind it must belong to the box's user."""
    script = "cat /dev/stdin > /dev/stdout; echo oops > /dev/stderr; echo more >> /proc/self/fd/1; cat < /dev/fd/0"
    for shell in ("sh", "bash"):
        result = gb.json("--lang", shell, "-c", script, input=b"in\n")
        assert (result["stdout"], result["stderr"]) == ("in\nmore\n", "oops\n"), result
