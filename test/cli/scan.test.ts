// `sluice scan` as a process: findings, exit codes and JSON, over files as they come and as an attacker would make them.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { mainPath, ownSignaturesDirectory } from '../../src/paths.js';
import { nestedZip, zip } from '../fixtures/archives.js';
import { type Ended, start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { eicar } from '../fixtures/samples.js';

const EICAR_NAME = 'Sluice.Test.EICAR.UNOFFICIAL';

type Content = string | Uint8Array;

/** A folder with these files; a path's folders are made. */
function folder(t: Test, files: Readonly<Record<string, Content>> = {}): string {
  const path = temporaryFolder(t);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(path, name, '..'), { recursive: true });
    writeFileSync(join(path, name), content);
  }
  return path;
}

function scan(
  t: Test,
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return start(t, mainPath, ['scan', ...args], { cwd, env: { SIGNATURES_DIR: ownSignaturesDirectory, ...env } }).ended;
}

/** The lines before the summary. */
function lines({ stdout }: Ended): string[] {
  return stdout.slice(0, stdout.lastIndexOf('\n\n')).split('\n');
}

t.test('what is said beside a verdict is in the line and in the JSON of a file', async (t) => {
  const secret = zip([{ name: 'secret.txt', content: randomBytes(100), encrypted: true }]);
  const path = folder(t, { 'a.zip': secret, b: 'b' });
  t.same(lines(await scan(t, path, ['a.zip', 'b'])), ['a.zip: CLEAN (encrypted)', 'b: CLEAN']);
  const { files } = Object(JSON.parse((await scan(t, path, ['--json', 'a.zip', 'b'])).stdout));
  t.match(files, [
    { infected: false, notices: ['encrypted'] },
    { infected: false, notices: [] },
  ]);
  const byRules = await scan(t, path, ['b'], { ENGINE: 'yara' });
  t.same(lines(byRules), ['b: CLEAN (raw-content)']);
});

t.test('clean files: a line for each, in order, and exit code 0', async (t) => {
  const ended = await scan(t, folder(t, { 'd/b': 'b', 'd/a': 'a', 'd/c/x': 'x', 'd/empty': '', z: 'z' }), ['z', 'd']);
  t.same(lines(ended), ['z: CLEAN', 'd/a: CLEAN', 'd/b: CLEAN', 'd/c/x: CLEAN', 'd/empty: CLEAN']);
  t.match(ended.stdout, /\nScanned 5 files: 5 clean, 0 infected, 0 incomplete, 0 failed \(.*\)\n$/);
  t.match(
    ended.stderr,
    /^sluice: 16 signatures serve, only those that ship with Sluice: .*`sluice signatures update`.*\n$/,
  );
  t.equal(ended.code, 0);
});

t.test('an infected file, and one deep inside archives: their names and exit code 1', async (t) => {
  const files = { 'clean.txt': 'hello', 'eicar.com': eicar(), 'sub/nested.zip': nestedZip(eicar(), 3) };
  const ended = await scan(t, folder(t, files), ['.', 'missing']);
  t.same(lines(ended), [
    './clean.txt: CLEAN',
    `./eicar.com: INFECTED ${EICAR_NAME}`,
    `./sub/nested.zip: INFECTED ${EICAR_NAME}`,
    'missing: FAILED no such file or folder',
  ]);
  t.equal(ended.code, 1);
});

t.test('- is standard input, as one content', async (t) => {
  const path = folder(t, { '-': 'a file of that name' });
  const env = { SIGNATURES_DIR: ownSignaturesDirectory, SCAN_MAX_SIZE_MB: '11' };
  const piped = (input: Content, args: readonly string[] = ['-']): Promise<Ended> =>
    start(t, mainPath, ['scan', ...args], { cwd: path, env, input }).ended;
  t.match(await piped(eicar()), { code: 1, stdout: /^-: INFECTED / });
  t.match(await piped('clean', ['-', './-']), {
    code: 0,
    stdout: /^-: CLEAN\n\.\/-: CLEAN\n\nScanned 2 files: 2 clean/,
  });
  t.match(await piped(''), { code: 2, stdout: /^-: FAILED nothing came: / });
  t.match(await piped(Buffer.alloc(11 * 1024 * 1024 + 1)), { code: 2, stdout: /^-: INCOMPLETE larger than 11 MB\n/ });
  t.match(await piped(eicar(), ['-', '-']), { code: 2, stderr: /can be read once: name it once/ });
  const { files } = Object(JSON.parse((await piped(Buffer.alloc(200_000), ['--json', '-'])).stdout));
  t.match(files, [
    { path: '-', sizeInBytes: 200_000, sha256: createHash('sha256').update(Buffer.alloc(200_000)).digest('hex') },
  ]);
});

t.test('SCAN_MAX_SIZE_MB says how large a file may be', async (t) => {
  const path = folder(t, { large: '', small: 'hello' });
  truncateSync(join(path, 'large'), 11 * 1024 * 1024 + 1);
  const ended = await scan(t, path, ['large', 'small'], { SCAN_MAX_SIZE_MB: '11' });
  t.same(lines(ended), ['large: INCOMPLETE larger than 11 MB', 'small: CLEAN']);
  t.equal(ended.code, 2);
  t.same(lines(await scan(t, path, ['large'], { SCAN_MAX_SIZE_MB: '12' })), ['large: CLEAN']);
});

t.test('files that unpack to more than SCAN_TEMP_MB have no verdict, and the reason names it', async (t) => {
  const bomb = (letter: string) =>
    zip(Array.from({ length: 3 }, (_, at) => ({ name: `${at}`, content: Buffer.alloc(60 * 1024 * 1024, letter) })));
  const path = folder(t, { 'a.zip': bomb('a'), 'b.zip': bomb('b'), 'c.zip': bomb('c') });
  const ended = await scan(t, path, ['.'], { SCAN_TEMP_MB: '16', SCAN_THREADS: '2' });
  t.equal(ended.code, 2, ended.stderr);
  t.match(
    lines(ended),
    ['a', 'b', 'c'].map(
      (name) => new RegExp(`^\\./${name}\\.zip: (FAILED|INCOMPLETE) .*no room to unpack.*SCAN_TEMP_MB`),
    ),
  );
});

t.test('a missing path and a file that can not be looked at as a whole: exit code 2', async (t) => {
  const path = folder(t, { 'deep.zip': nestedZip(Buffer.from('x'), 40), large: '', clean: 'hello' });
  truncateSync(join(path, 'large'), 200 * 1024 * 1024 + 1);
  const ended = await scan(t, path, ['missing', 'deep.zip', 'large', 'clean/x', 'clean']);
  t.match(lines(ended), [
    'missing: FAILED no such file or folder',
    /^deep\.zip: INCOMPLETE engine limit exceeded/,
    'large: INCOMPLETE larger than 200 MB',
    'clean/x: FAILED a part of the path is not a folder',
    'clean: CLEAN',
  ]);
  t.equal(ended.code, 2);
});

t.test('a file whose size the system does not tell is never called clean', async (t) => {
  const ended = await scan(t, folder(t), ['/proc/self/status']);
  t.same(lines(ended), ['/proc/self/status: INCOMPLETE the file changed while it was read']);
  t.equal(ended.code, 2);
});

t.test('a file that can not be read has failed', async (t) => {
  // Address 0 of a process' memory: refused to root, too, whom permissions don't stop.
  const ended = await scan(t, folder(t, { a: 'a' }), ['/proc/self/mem', 'a']);
  t.same(lines(ended), ['/proc/self/mem: FAILED input/output error', 'a: CLEAN']);
  t.equal(ended.code, 2);
});

t.test('links and special files in folders are skipped with a note, named links are followed', async (t) => {
  const path = folder(t, { 'outside/eicar.com': eicar(), 'd/a': 'a' });
  symlinkSync('../outside/eicar.com', join(path, 'd/link'));
  symlinkSync('..', join(path, 'd/loop'));
  execFileSync('mkfifo', [join(path, 'd/pipe')]);
  const ended = await scan(t, path, ['d']);
  t.same(lines(ended), ['d/a: CLEAN']);
  t.match(ended.stdout, '3 skipped');
  t.match(
    ended.stderr,
    'sluice: skipped d/link: a symbolic link\nsluice: skipped d/loop: a symbolic link\nsluice: skipped d/pipe: a named pipe\n',
  );
  t.equal(ended.code, 0);
  const named = await scan(t, path, ['d/link', 'd/pipe']);
  t.same(lines(named), [
    `d/link: INFECTED ${EICAR_NAME}`,
    'd/pipe: FAILED neither a file nor a folder, but a named pipe',
  ]);
});

t.test('an empty folder is clean', async (t) => {
  const ended = await scan(t, folder(t), ['.']);
  t.match(ended.stdout, /^\nScanned 0 files/);
  t.equal(ended.code, 0);
});

t.test('hostile names stay on their line and are scanned', async (t) => {
  const path = folder(t, { 'a\nfake: CLEAN': eicar(), '\x1b[2J\r': 'x', '--json': 'x' });
  writeFileSync(Buffer.concat([Buffer.from(`${path}/`), Buffer.from([0xff, 0xfe])]), eicar());
  const ended = await scan(t, path, ['.', '--', '--json']);
  t.same(lines(ended), [
    './\\x1b[2J\\r: CLEAN',
    './--json: CLEAN',
    `./a\\nfake: CLEAN: INFECTED ${EICAR_NAME}`,
    `./\\xff\\xfe: INFECTED ${EICAR_NAME}`,
    '--json: CLEAN',
  ]);
  t.equal(ended.code, 1);
});

t.test('--json prints one document', async (t) => {
  const path = folder(t, { 'a.tar.gz': 'hello', 'b\n\x1b.com': eicar(), empty: '', large: '' });
  truncateSync(join(path, 'large'), 200 * 1024 * 1024 + 1);
  const ended = await scan(t, path, ['--json', '.', 'missing']);
  t.notMatch(ended.stdout, '\x1b');
  const { files, summary } = JSON.parse(ended.stdout);
  const sha256 = (content: Content): string => createHash('sha256').update(content).digest('hex');
  t.match(files, [
    {
      path: './a.tar.gz',
      filename: 'a.tar.gz',
      extension: 'gz',
      sizeInBytes: 5,
      sha256: sha256('hello'),
      scanDurationMillis: Number,
      infected: false,
      virusName: null,
      error: null,
    },
    { path: './b\n\x1b.com', infected: true, virusName: EICAR_NAME, sha256: sha256(eicar()), error: null },
    { path: './empty', sizeInBytes: 0, sha256: sha256(''), scanDurationMillis: null, infected: false },
    { path: './large', infected: null, sha256: null, error: 'larger than 200 MB' },
    { path: 'missing', sizeInBytes: null, infected: null, virusName: null, error: 'no such file or folder' },
  ]);
  const names = 'path filename extension sizeInBytes sha256 scanDurationMillis infected virusName notices error';
  for (const file of files) t.equal(Object.keys(file).join(' '), names);
  t.match(summary, { files: 5, clean: 2, infected: 1, incomplete: 1, failed: 1, skipped: 0, interrupted: false });
  t.equal(ended.code, 1);
});

t.test('--json of nothing is a document, too', async (t) => {
  t.match(JSON.parse((await scan(t, folder(t), ['--json', '.'])).stdout), { files: [], summary: { files: 0 } });
});

t.test('5,000 files, in order', async (t) => {
  const path = folder(t);
  const names = Array.from({ length: 5_000 }, (_, index) => `f${String(index).padStart(5, '0')}`);
  for (const name of names) writeFileSync(join(path, name), name);
  const ended = await scan(t, path, ['.']);
  t.equal(lines(ended).join('\n'), names.map((name) => `./${name}: CLEAN`).join('\n'));
  t.equal(ended.code, 0);
});

t.test('a damaged database ends it with a message and exit code 2', async (t) => {
  const path = folder(t, { 'db/bad.ndb': 'this is not a signature\n', a: 'a' });
  const ended = await scan(t, path, ['a'], { SIGNATURES_DIR: join(path, 'db') });
  t.match(ended.stderr, /^sluice: the signatures could not be loaded: .*bad\.ndb/);
  t.equal(ended.stdout, '');
  t.equal(ended.code, 2);
});

t.test('Ctrl-C ends it with 130, a whole document and no temporary folder', async (t) => {
  const path = folder(t);
  for (let index = 0; index < 5_000; index += 1) writeFileSync(join(path, String(index)), 'x');
  const env = { SIGNATURES_DIR: ownSignaturesDirectory };
  const running = start(t, mainPath, ['scan', '--json', '.', '.', '.', '.', '.', '.'], { cwd: path, env });
  await running.line('"path"');
  running.process.kill('SIGINT');
  const ended = await running.ended;
  t.equal(ended.code, 130);
  const { files, summary } = JSON.parse(ended.stdout);
  t.equal(summary.interrupted, true);
  t.equal(summary.files, files.length);
  t.ok(files.length < 30_000);
  const left = ['/dev/shm', tmpdir()].flatMap((parent) => readdirSync(parent));
  t.notOk(left.some((name) => name.startsWith(`sluice-engine-${running.process.pid}-`)));
});

t.test('on a terminal a progress bar is shown, and every finding has a line of its own', async (t) => {
  const path = folder(t);
  for (let index = 0; index < 500; index += 1) writeFileSync(join(path, `f${index}`), 'x');
  const command = `'${process.execPath}' '${mainPath}' scan .`;
  const env = { PATH: process.env['PATH'], TERM: 'xterm', SIGNATURES_DIR: ownSignaturesDirectory };
  const screen = execFileSync('script', ['-qec', command, '/dev/null'], {
    cwd: path,
    env,
    encoding: 'utf8',
    stdio: 'pipe',
  });
  t.match(screen, /Scanning .* files/);
  const findings = screen.split('\r\n').filter((line) => line.includes('CLEAN'));
  t.equal(findings.length, 500);
  // Whatever a bar left in front of a finding has been wiped.
  for (const line of findings) t.match(line.split('\x1b[K').at(-1), /^\.\/f\d+: CLEAN$/);
});

t.test('a reader that goes away ends the scan', async (t) => {
  const path = folder(t);
  for (let index = 0; index < 5_000; index += 1) writeFileSync(join(path, String(index)), 'x');
  const env = { SIGNATURES_DIR: ownSignaturesDirectory };
  const running = start(t, mainPath, ['scan', '.', '.', '.', '.', '.', '.'], { cwd: path, env });
  await running.line('CLEAN');
  running.process.stdout?.destroy();
  const ended = await running.ended;
  t.equal(ended.code, 2);
  t.notMatch(ended.stderr, /EPIPE|Error/);
});

t.test(
  "what gates are made of is kept where there is much to scan, in a folder that is the user's alone",
  async (t) => {
    const path = folder(t, { 'a.com': eicar(), large: randomBytes(8 << 20) });
    const kept = join(folder(t), 'cache');
    const gates = join(kept, 'sluice', 'gates');
    const scanned = async (...args: string[]): Promise<string[]> =>
      lines(await scan(t, path, args, { XDG_CACHE_HOME: kept }));

    t.same(await scanned('a.com'), [`a.com: INFECTED ${EICAR_NAME}`]);
    t.notOk(existsSync(kept), 'not for a little');
    const both = [`a.com: INFECTED ${EICAR_NAME}`, 'large: CLEAN'];
    t.same(await scanned('a.com', 'large'), both);
    const [made, ...more] = readdirSync(gates);
    t.ok(existsSync(join(gates, String(made), 'manifest.json')));
    t.same(more, []);
    t.same(await scanned('a.com', 'large'), both);
    t.same(readdirSync(gates), [made], 'once');

    rmSync(join(gates, String(made)), { recursive: true });
    for (const open of [gates, join(kept, 'sluice'), kept]) {
      chmodSync(open, 0o777);
      t.same(await scanned('a.com', 'large'), both);
      t.same(readdirSync(gates), [], `others may write to ${open}`);
      chmodSync(open, 0o700);
    }
    const onFile = await scan(t, path, ['a.com', 'large'], { XDG_CACHE_HOME: join(path, 'large') });
    t.same(lines(onFile), both, 'nothing can be kept there');
  },
);

t.test('a user without a name and without HOME scans much, too', { skip: noNamespaces }, async (t) => {
  const path = folder(t, { 'a.com': eicar(), large: randomBytes(8 << 20) });
  const args = ['--map-user=4711', process.execPath, mainPath, 'scan', path];
  const env = { PATH: process.env['PATH'], SIGNATURES_DIR: ownSignaturesDirectory };
  const { status, stdout, stderr } = spawnSync('unshare', args, { env, encoding: 'utf8' });
  t.equal(status, 1, stderr);
  t.match(stdout, `${path}/a.com: INFECTED ${EICAR_NAME}\n${path}/large: CLEAN\n`);
});
