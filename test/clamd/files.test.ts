// Files of the machine: by their path below CLAMD_PATHS and never through a link out of them, and by descriptors that come along.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { CLAMD_FILES_ALONG } from '../../src/limits.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { startClamd } from '../fixtures/clamd.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { API_KEY } from '../fixtures/server.js';
import { PASSWORD } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { ask, bytesOf, EICAR, EMAIL, END, sorted, startOurs, talk } from './client.js';

const NAME = 'Sluice.Test.EICAR.UNOFFICIAL';
const isRoot = process.getuid?.() === 0;

interface Share {
  readonly share: string;
  readonly outside: string;
}

/** A folder with what is found in it, and one beside it that isn't allowed. */
function makeShare(t: Test): Share {
  const folder = temporaryFolder(t);
  const [share, outside] = [join(folder, 'share'), join(folder, 'outside')];
  for (const each of [share, outside, join(share, 'sub'), join(share, 'sub', 'deeper')]) mkdirSync(each);
  writeFileSync(join(share, 'clean'), 'nothing');
  writeFileSync(join(share, 'empty'), '');
  writeFileSync(join(share, 'sub', 'one'), EICAR);
  writeFileSync(join(share, 'sub', 'deeper', 'two with \xe9 and blanks'), EICAR);
  writeFileSync(join(outside, 'secret'), EICAR);
  mkdirSync(join(share, 'good'));
  writeFileSync(join(share, 'good', 'a'), 'clean');
  execFileSync('mkfifo', [join(share, 'fifo')]);
  return { share, outside };
}

// One server for what is asked of folders: each test has its own among them.
const shares = {
  compared: makeShare(t),
  linked: makeShare(t),
  swapped: makeShare(t),
  large: makeShare(t),
  debian: makeShare(t),
};
const folders = [...Object.values(shares).map(({ share }) => share), '/no/such/folder'];
const { server, unix, tcp } = await startOurs({
  CLAMD_PATHS: folders.join(),
  STREAM_MAX_MB: '10',
  UPLOAD_MEMORY_MB: '64',
});
t.teardown(() => server.stop('SIGKILL'));

t.test('what clamd answers of files and folders', async (t) => {
  const { share } = shares.compared;
  const theirs = await startClamd({ databaseDirectory: ownSignaturesDirectory, threads: 2 });
  t.teardown(theirs.stop);
  const paths = [
    '',
    '/clean',
    '/empty',
    '/sub/one',
    '/sub//one',
    '/sub/../sub/one',
    '/sub/',
    '/good',
    '/none',
    '/clean/',
  ];
  for (const path of paths) {
    for (const word of ['CONTSCAN', 'MULTISCAN', 'SCAN', 'ALLMATCHSCAN']) {
      // SCAN stops at what it finds first, and each finds its own.
      if (path === '' && word.length !== 8 + Number(word === 'MULTISCAN')) continue;
      for (const command of [`z${word} ${share}${path}\0`, `n${word} ${share}${path}\n`]) {
        const expected = sorted(await ask({ path: theirs.socketPath }, bytesOf(command)));
        t.equal(sorted(await ask(unix, bytesOf(command))), expected, command);
        t.equal(sorted(await ask(tcp, bytesOf(command))), expected, command);
      }
    }
  }
  const session = bytesOf(`zIDSESSION\0zSCAN ${share}/clean\0zPING\0zSCAN ${share}/sub/one\0zEND\0`);
  t.equal(
    sorted(await ask(unix, session)),
    ['', `1: ${share}/clean: OK`, '2: PONG', `3: ${share}/sub/one: ${NAME} FOUND`].join('|'),
  );
  const stopped = await ask(unix, bytesOf(`zSCAN ${share}\0`));
  t.match(stopped, /^[^\0]* FOUND\0$/, 'SCAN stops at what it finds first');
});

t.test('nothing outside of the folders is opened or told of, by whatever way', async (t) => {
  const { share, outside } = shares.linked;
  symlinkSync(join(outside, 'secret'), join(share, 'link out'));
  symlinkSync(outside, join(share, 'folder out'));
  symlinkSync(join(outside, 'none'), join(share, 'link to nothing out'));
  symlinkSync('sub/one', join(share, 'link in'));
  symlinkSync('loop', join(share, 'loop'));
  writeFileSync(`${share}-beside`, EICAR);
  t.teardown(() => rmSync(`${share}-beside`));
  const refused = [
    `${outside}/secret`,
    `${outside}/none`,
    `${outside}/none/none`,
    `${share}/../outside/secret`,
    `${share}-beside`,
    `${share}/link out`,
    `${share}/folder out`,
    `${share}/folder out/secret`,
    `${share}/folder out/none`,
    `${share}/link to nothing out`,
    `${share}/loop`,
    `${share}/sub/one/below a file`,
    '/etc/hostname',
    '/proc/self/environ',
    '/proc/self/fd/0',
    '/',
    `/${'a'.repeat(300)}`,
  ];
  for (const path of refused) {
    for (const word of ['SCAN', 'CONTSCAN', 'MULTISCAN']) {
      const answer = await ask(unix, bytesOf(`z${word} ${path}\0`));
      t.equal(answer, `${path}: File path check failure: Permission denied. ERROR\0`, `${word} ${path}`);
    }
  }
  t.equal(await ask(unix, bytesOf(`zSCAN ${share}/link in\0`)), `${share}/link in: ${NAME} FOUND\0`);
  t.equal(
    await ask(unix, bytesOf(`zSCAN ${share}/fifo\0`)),
    `${share}/fifo: Not supported file type ERROR\0`,
    'and nobody waits for its other end',
  );
  const all = await ask(unix, bytesOf(`zCONTSCAN ${share}\0`));
  t.equal(all.split('\0').length, 3, 'a walk follows no link');
  t.notMatch(all, /outside|link|folder out/);
});

t.test('a link that is put in the place of a file while it is asked for leads nowhere', async (t) => {
  const { share, outside } = shares.swapped;
  writeFileSync(join(outside, 'secret'), EICAR);
  const place = join(share, 'place');
  writeFileSync(place, 'clean');
  let isOver = false;
  const swapping = (async () => {
    for (let round = 0; !isOver; round += 1) {
      const fresh = join(share, `fresh ${round % 2}`);
      if (round % 2 === 0) symlinkSync(join(outside, 'secret'), fresh);
      else writeFileSync(fresh, 'clean');
      renameSync(fresh, place);
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  const answers = new Set<string>();
  for (let round = 0; round < 300; round += 1) {
    answers.add(await ask(unix, bytesOf(`zSCAN ${place}\0`)));
    answers.add(await ask(unix, bytesOf(`zCONTSCAN ${share}/\0`)));
  }
  isOver = true;
  await swapping;
  for (const answer of answers) t.notMatch(answer, /place: \S+ FOUND/);
  t.ok(answers.size > 2, 'it was once so and once so');
});

t.test('what can not be read, or is too large, is an error and no OK', async (t) => {
  const { share } = shares.large;
  writeFileSync(join(share, 'good', 'large'), Buffer.alloc(10 * 1024 * 1024 + 1, 1));
  const tooLarge = `${share}/good/large: Scan incomplete: file is over STREAM_MAX_MB ERROR\0`;
  t.equal(await ask(unix, bytesOf(`zSCAN ${share}/good/large\0`)), tooLarge);
  t.equal(await ask(unix, bytesOf(`zCONTSCAN ${share}/good\0`)), tooLarge);
  const deep = join(share, ...Array.from({ length: 20 }, () => 'd'));
  mkdirSync(deep, { recursive: true });
  t.match(await ask(unix, bytesOf(`zCONTSCAN ${share}/d\0`)), /^\S*: Folders too deep ERROR\0$/);
});

/** What a program of Python says when it sends descriptors, which Node can't. */
function withDescriptors(path: string, program: string): string {
  const prelude = `
import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1])
def send(data, *fds):
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else [])
def rest():
    out = b''
    while True:
        got = s.recv(65536)
        if not got: return out
        out += got
def say(): sys.stdout.buffer.write(rest())
`;
  const run = spawnSync('/usr/bin/python3', ['-c', prelude + program, path], { encoding: 'latin1', timeout: 120_000 });
  if (run.status !== 0) throw new Error(run.stderr);
  return run.stdout.replace(/fd\[\d+\]/g, 'fd[N]');
}

t.test('FILDES takes open files, and all of them are closed', async (t) => {
  // Below no folder of CLAMD_PATHS.
  const { share } = makeShare(t);
  const open = (name: string, flags = 'os.O_RDONLY') => `os.open(${JSON.stringify(join(share, name))}, ${flags})`;
  const tried: readonly (readonly [string, string, string])[] = [
    ['infected', `send(b'zFILDES\\0'); send(b'\\0', ${open('sub/one')})`, `fd[N]: ${NAME} FOUND\0`],
    ['clean, n', `send(b'nFILDES\\n'); send(b'\\0', ${open('clean')})`, 'fd[N]: OK\n'],
    ['old', `send(b'FILDES\\n'); send(b'\\0', ${open('clean')})`, 'fd[N]: OK\n'],
    ['empty', `send(b'zFILDES\\0'); send(b'\\0', ${open('empty')})`, 'fd[N]: OK\0'],
    [
      'from its beginning, whatever was read',
      `f = ${open('sub/one')}; os.lseek(f, 20, 0); send(b'zFILDES\\0'); send(b'\\0', f)`,
      `fd[N]: ${NAME} FOUND\0`,
    ],
    ['a folder', `send(b'zFILDES\\0'); send(b'\\0', ${open('sub')})`, 'fd[N]: Not a regular file ERROR\0'],
    ['a pipe', `send(b'zFILDES\\0'); send(b'\\0', os.pipe()[0])`, 'fd[N]: Not a regular file ERROR\0'],
    [
      'only for writing',
      `send(b'zFILDES\\0'); send(b'\\0', ${open('clean', 'os.O_WRONLY')})`,
      "fd[N]: File can't be read: EBADF ERROR\0",
    ],
    ['none', `send(b'zFILDES\\0'); send(b'\\0')`, 'No file descriptor received. ERROR\0'],
    [
      'two at once',
      `send(b'zFILDES\\0'); send(b'\\0', ${open('clean')}, ${open('clean')})`,
      'No file descriptor received. ERROR\0',
    ],
    [
      'unasked',
      `send(b'n'); time.sleep(0.1); send(b'PING', ${open('clean')})`,
      'PROTOCOL ERROR: ancillary data sent without FILDES. ERROR\nError processing command. ERROR\n',
    ],
    [
      'in a session',
      `send(b'zIDSESSION\\0zFILDES\\0'); send(b'\\0', ${open('sub/one')}); send(b'zFILDES\\0'); send(b'\\0', ${open('clean')}); send(b'zPING\\0zEND\\0')`,
      `|1: fd[N]: ${NAME} FOUND|2: fd[N]: OK|3: PONG`,
    ],
  ];
  for (const [name, program, expected] of tried) {
    const answer = withDescriptors(unix.path, `${program}; say()`);
    t.equal(expected.startsWith('|') ? sorted(answer) : answer, expected, name);
  }
  // A client that sends many, and leaves.
  withDescriptors(
    unix.path,
    `
send(b'zIDSESSION\\0')
for _ in range(200): send(b'zFILDES\\0'); send(b'\\0', ${open('clean')})
`,
  );
  const descriptors = (): number => readdirSync(`/proc/${server.serverPid()}/fd`).length;
  const before = descriptors();
  for (let round = 0; round < 5; round += 1) {
    withDescriptors(unix.path, `send(b'zFILDES\\0'); send(b'\\0', ${open('clean')}); say()`);
    withDescriptors(unix.path, `send(b'zINSTREAM\\0'); send(b'\\0\\0', ${open('clean')})`);
    withDescriptors(unix.path, `send(b'zFILDES\\0'); send(b'\\0', ${open('sub/one')})`);
  }
  await until(() => descriptors() <= before);
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', END)), 'stream: OK\0');
});

t.test('open files that come along without end are bounded', async (t) => {
  const descriptors = (): number => readdirSync(`/proc/${server.serverPid()}/fd`).length;
  const CLIENTS = 20;
  const before = descriptors();
  // All of it is there when the process goes on.
  process.kill(server.serverPid(), 'SIGSTOP');
  const clients = spawn('python3', ['-c', fillWithFiles, unix.path, String(CLIENTS)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(() => clients.kill('SIGKILL'));
  const [sent] = await once(clients.stdout, 'data');
  t.ok(Number(sent) > 2_000, `${sent} open files`);
  process.kill(server.serverPid(), 'SIGCONT');
  let most = 0;
  await until(() => {
    const count = descriptors();
    most = Math.max(most, count);
    // It leaves them, after their time, and not they.
    return most > before && count <= before;
  });
  t.ok(most <= before + CLIENTS + CLAMD_FILES_ALONG + 16, `${most} descriptors, ${before} before`);
});

/** Clients that send an open file four times with each byte, as long as there is room, and stay. */
const fillWithFiles = `
import array, os, socket, sys
file = os.open('/dev/null', os.O_RDONLY)
files = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file] * 4))]
clients = [socket.socket(socket.AF_UNIX) for _ in range(int(sys.argv[2]))]
sent = 0
for client in clients:
    client.connect(sys.argv[1])
    client.send(b'zIDSESSION\\0')
    client.setblocking(False)
    try:
        while True:
            client.sendmsg([b'x'], files)
            sent += 4
    except OSError:
        pass
print(sent, flush=True)
sys.stdin.read()
`;

t.test('a file that comes along when no descriptor is left is looked at, and ends no process', (t) => {
  const script = fileURLToPath(new URL('few-descriptors.js', import.meta.url));
  const { status, stderr } = spawnSync('sh', ['-c', 'ulimit -n 256; exec "$@"', 'sh', process.execPath, script]);
  t.equal(status, 0, String(stderr));
  t.end();
});

t.test('the history has the end of a path, without control characters, and the extension of the file', async (t) => {
  const { share } = shares.large;
  const folder = join(share, 'v1.2', 'd'.repeat(200));
  mkdirSync(folder, { recursive: true });
  for (const name of ['readme', 'red\x1b[31m\n.txt']) {
    writeFileSync(join(folder, name), `once ${name}`);
    t.match(await ask(unix, bytesOf(`zSCAN ${join(folder, name)}\0`)), ': OK');
  }
  const headers = { 'X-API-KEY': API_KEY };
  const newest = async (): Promise<unknown> => (await fetch(`${server.url}/api/v1/scans?limit=2`, { headers })).json();
  const shown = (name: string): string => join(folder, name).slice(-255);
  const wanted = [
    { filename: shown('red[31m.txt'), extension: 'txt' },
    { filename: shown('readme'), extension: '' },
  ];
  await until(async () => JSON.stringify(await newest()).includes('red[31m'));
  t.match(await newest(), { content: wanted });
});

interface Hanging {
  readonly process: ChildProcess;
  readonly folder: string;
  /** All that it has printed. */
  told(): string;
}

/** Null: none can be made here. */
async function startHanging(t: Test, args: readonly string[] = []): Promise<Hanging | null> {
  const program = fileURLToPath(new URL('../../../test/fixtures/hanging-files.py', import.meta.url));
  const hanging = spawn('/usr/bin/python3', [program, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => hanging.kill('SIGKILL'));
  let told = '';
  hanging.stdout.on('data', (text: Buffer) => {
    told += text;
  });
  const exited = once(hanging, 'exit');
  await Promise.race([until(() => told.includes('\n')), exited]);
  if (hanging.exitCode !== null) {
    t.equal(hanging.exitCode, 77, 'no file system can be made here');
    return null;
  }
  return { process: hanging, folder: told.split('\n')[0] ?? '', told: () => told };
}

t.test('a file system that hangs keeps nobody from what needs no files of the machine', async (t) => {
  const { share } = shares.debian;
  const hanging = await startHanging(t, [unix.path, '6']);
  if (hanging === null) return;
  const gone = once(hanging.process, 'exit');
  await until(() => hanging.told().includes('hangs\nhangs\n'));
  const body = JSON.stringify({ email: EMAIL, password: PASSWORD });
  const headers = { 'Content-Type': 'application/json' };
  const signal = AbortSignal.timeout(60_000);
  const signedIn = await fetch(`${server.url}/web/auth/login`, { method: 'POST', headers, body, signal });
  t.equal(signedIn.status, 200, 'passwords take threads of the same kind');
  t.equal(await ask(unix, bytesOf('zINSTREAM\0', END)), 'stream: OK\0');
  t.match(await ask(unix, bytesOf(`zSCAN ${share}/sub/one\0`)), `${NAME} FOUND`, 'files are asked for by their paths');
  const along = `send(b'zFILDES\\0'); send(b'\\0', os.open('${share}/sub/one', os.O_RDONLY)); say()`;
  t.equal(withDescriptors(unix.path, along), `fd[N]: ${NAME} FOUND\0`, 'files of another file system come along');
  hanging.process.stdin?.end();
  await gone;
});

t.test('a folder that hangs keeps nobody from the others, and no stop', { skip: !isRoot && 'for root' }, async (t) => {
  const { share } = shares.debian;
  const hanging = await startHanging(t);
  if (hanging === null) return;
  const by = ['nsenter', '--target', String(hanging.process.pid), '--mount'];
  const ours = await startOurs({ CLAMD_PATHS: `${hanging.folder}/dead,${share}` }, { isSupervised: true, by });
  t.teardown(() => ours.server.stop('SIGKILL'));
  const talks = await Promise.all(Array.from({ length: 20 }, async () => await talk(t, ours.unix)));
  for (const { socket } of talks) socket.write(`zSCAN ${hanging.folder}/dead/file\0`);
  const tasks = `/proc/${ours.server.serverPid()}/task`;
  const waits = (thread: string): boolean => readFileSync(`${tasks}/${thread}/wchan`, 'utf8').includes('wait_answer');
  await until(() => readdirSync(tasks).some(waits));
  t.match(await ask(ours.unix, bytesOf(`zSCAN ${share}/sub/one\0`)), `${NAME} FOUND`);
  t.match(await ask(ours.unix, bytesOf(`zSCAN ${share}/../outside/secret\0`)), 'Permission denied');
  for (const { socket } of talks) socket.destroy();
  const unkillable = await startHanging(t, [ours.unix.path, '1', 'leave']);
  await until(() => unkillable?.told().includes('hangs\n'));
  process.kill(ours.server.pid, 'SIGTERM');
  await until(() => !existsSync(`/proc/${ours.server.pid}`));
  t.match(ours.server.output(), 'the kernel waits for a file system that hangs');
});

t.test('clamdscan of Debian: a path, a stream, a descriptor, several at a time', async (t) => {
  const { share } = shares.debian;
  const configPath = join(share, '..', 'clamd.conf');
  writeFileSync(configPath, `LocalSocket ${unix.path}\n`);
  chmodSync(configPath, 0o644);
  const found = `${share}/sub/one: ${NAME} FOUND`;
  for (const options of [
    [],
    ['--stream'],
    ['--fdpass'],
    ['--multiscan'],
    ['--multiscan', '--fdpass'],
    ['--allmatch'],
  ]) {
    const run = (path: string) =>
      spawnSync('clamdscan', [`--config-file=${configPath}`, '--no-summary', ...options, path], {
        encoding: 'latin1',
        timeout: 60_000,
      });
    const infected = run(join(share, 'sub', 'one'));
    t.equal(infected.status, 1, `${options}: ${infected.stderr}`);
    t.match(infected.stdout, found);
    const folder = run(join(share, 'sub'));
    t.equal(folder.status, 1);
    t.match(folder.stdout, 'FOUND');
    const clean = run(join(share, 'good'));
    t.equal(clean.status, 0, clean.stdout + clean.stderr);
    t.match(clean.stdout, `${share}/good`);
    t.match(clean.stdout, ': OK');
  }
  const version = spawnSync('clamdscan', [`--config-file=${configPath}`, '--version'], { encoding: 'latin1' });
  t.match(version.stdout, /^ClamAV \d/);
  t.equal(await server.stop(), 0);
});
