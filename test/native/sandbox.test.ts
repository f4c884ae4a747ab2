// The sandbox of a scan thread: what it must not do, tried for real by the tests' addon, and what it must still do.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { tryConfinement } from '../../src/engine/clamav/addon.js';
import { ScanPool, scanOnce } from '../../src/engine/threads/pool.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { start } from '../fixtures/command.js';
import { faultEnvironment } from '../fixtures/faults.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { sharedBytes } from '../fixtures/shared-bytes.js';
import { bodySignature, databaseFolder, load, serveFolder } from './engine.js';

const TEST_FILES = '/usr/share/clamav-testfiles';
const program = fileURLToPath(new URL('./faulty-process.js', import.meta.url));

/** The words after "Probe." for each order, and how the process ended. */
async function probe(t: Test, orders: readonly string[], mode: 'off' | 'required', temporary = temporaryFolder(t)) {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  const probes = orders.map((order) => `probe ${order}`);
  const env = { ...faultEnvironment, SANDBOX: mode };
  const { stdout, code, signal } = await start(t, program, [databases, temporary, ...probes], { env }).ended;
  const answers = [...stdout.matchAll(/"virusName":"Probe\.([^"]*)"/g)].map(([, words]) => words);
  return { answers, code, signal };
}

t.test('this kernel has both parts', async (t) => {
  const { seccomp, landlock } = tryConfinement();
  t.equal(seccomp, true);
  t.ok(landlock !== null && landlock >= 1);
});

/** With EPERM: a library may try them. */
const refused = [
  ...['socket', 'socket-unix', 'connect', 'sendto', 'accept', 'fork', 'kill', 'tgkill-other', 'prlimit-other'],
  ...['io_uring_setup', 'setuid', 'pidfd_open', 'memfd_create', 'terminal-input'],
];
/** The process ends: nobody but an attacker tries them here. */
const deadly = [
  ...['execve', 'ptrace', 'process_vm_readv', 'keyctl', 'bpf', 'userfaultfd', 'perf_event_open', 'mount', 'unshare'],
];

t.test('without the sandbox every probe gets through', async (t) => {
  const { answers } = await probe(t, [...refused, ...deadly], 'off');
  // Some need rights that not every user has; the others tell that the probes are true ones.
  const needRights = new Set(['bpf', 'userfaultfd', 'perf_event_open', 'mount', 'io_uring_setup', 'keyctl']);
  const names = [...refused, ...deadly];
  t.equal(answers.length, names.length);
  for (const [index, name] of names.entries()) {
    if (!needRights.has(name)) t.equal(answers[index], `${name}.OK`);
  }
});

t.test('a scan thread gets no network, no process and no one to signal', async (t) => {
  const { answers } = await probe(t, refused, 'required');
  t.same(
    answers,
    refused.map((name) => `${name}.EPERM`),
  );
});

for (const name of deadly) {
  t.test(`a scan thread that calls ${name} ends the process`, async (t) => {
    const { answers, signal } = await probe(t, [name], 'required');
    t.same({ answers, signal }, { answers: [], signal: 'SIGSYS' });
  });
}

t.test('a scan thread reaches no file outside its folders', async (t) => {
  const outside = databaseFolder(t, { file: 'kept' });
  const file = join(outside, 'file');
  const fresh = join(outside, 'fresh');
  const paths = {
    open: [file, '/etc/passwd', '/proc/self/environ', '/proc/self/mem', '/dev/null'],
    list: [outside, '/', '/proc/self/fd'],
    append: [file],
    truncate: [file],
    create: [fresh],
    mkdir: [fresh],
    unlink: [file],
  };
  const orders = Object.entries(paths).flatMap(([what, each]) => each.map((path) => `${what} ${path}`));
  const { answers } = await probe(t, orders, 'required');
  t.same(
    answers,
    orders.map((order) => `${order.split(' ')[0]}.EACCES`),
  );
  const { answers: others } = await probe(t, [`symlink ${fresh}`, `chmod ${file}`], 'required');
  t.same(others, ['symlink.EPERM', 'chmod.EPERM']);
  t.equal(readFileSync(file, 'utf8'), 'kept');
  t.same(readdirSync(outside), ['file']);
});

t.test('a scan thread works in its temporary folder, loads conversions and starts threads', async (t) => {
  const temporary = temporaryFolder(t);
  const path = join(temporary, 'a');
  const orders = [
    ...[`create ${path}`, `open ${path}`, `append ${path}`, `truncate ${path}`, `list ${temporary}`, `unlink ${path}`],
    ...[`mkdir ${path}`, 'thread'],
  ];
  const { answers } = await probe(t, orders, 'required', temporary);
  t.same(
    answers,
    orders.map((order) => `${order.split(' ')[0]}.OK`),
  );
});

t.test('a link in the temporary folder leads nowhere else', async (t) => {
  const temporary = temporaryFolder(t);
  const outside = databaseFolder(t, { file: 'kept' });
  symlinkSync(join(outside, 'file'), join(temporary, 'link'));
  const { answers } = await probe(
    t,
    [`open ${temporary}/link`, `open ${temporary}${'/..'.repeat(20)}/etc/passwd`],
    'required',
    temporary,
  );
  t.same(answers, ['open.EACCES', 'open.EACCES']);
});

t.test('other threads of the process stay free', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') })]);
  const pool = new ScanPool({ threads: 1, queueLimit: 1, scanTimeoutMs: 60_000, sandbox: 'required' });
  t.teardown(() => pool.stop());
  await scanOnce(pool, new Uint8Array(new SharedArrayBuffer(8)), 8);
  const folder = temporaryFolder(t);
  const inner = mkdtempSync(join(folder, 'x'));
  writeFileSync(join(inner, 'file'), 'x');
  rmSync(inner, { recursive: true });
  const { ended } = start(t, '-p', ['1 + 1']);
  t.match(await ended, { code: 0, stdout: '2\n' });
});

t.test('every test file of ClamAV has the same verdict with and without the sandbox', async (t) => {
  const contents = readdirSync(TEST_FILES).map((name) => ({ name, bytes: readFileSync(join(TEST_FILES, name)) }));
  t.ok(contents.length > 40);
  await serveFolder(ownSignaturesDirectory, temporaryFolder(t));
  const verdicts = [];
  for (const sandbox of ['off', 'required'] as const) {
    const pool = new ScanPool({ threads: 2, queueLimit: 100, scanTimeoutMs: 60_000, sandbox });
    const scans = contents.map(async ({ name, bytes }) => {
      return { name, verdict: (await scanOnce(pool, sharedBytes(bytes), bytes.length)).verdict };
    });
    verdicts.push(await Promise.all(scans));
    await pool.stop();
  }
  t.same(verdicts[1], verdicts[0]);
  const found = verdicts[1]?.filter(({ verdict }) => verdict.kind === 'infected').length;
  t.ok(found !== undefined && found > 35, `${found} are found`);
});

const LANDLOCK_CREATE_RULESET = 444;
const SECCOMP = process.arch === 'arm64' ? 277 : 317;
const [EPERM, ENOSYS] = [1, 38];

/** The lines that sandbox-process.ts prints as on a kernel where these calls fail so. */
async function lacking(t: Test, error: number, calls: readonly number[], mode: 'auto' | 'required') {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  const kernel = fileURLToPath(new URL('../../../test/fixtures/without-call.py', import.meta.url));
  const script = fileURLToPath(new URL('./sandbox-process.js', import.meta.url));
  const args = [kernel, `${error}`, calls.join(','), process.execPath, script, mode, databases, temporaryFolder(t)];
  const { stdout, stderr, status } = spawnSync('/usr/bin/python3', args, { encoding: 'utf8' });
  t.match({ status, stderr }, { status: 0, stderr: '' });
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

const kernels = [
  { lacks: 'Landlock', calls: [LANDLOCK_CREATE_RULESET], error: ENOSYS, left: { seccomp: true, landlock: null } },
  { lacks: 'seccomp', calls: [SECCOMP], error: EPERM, left: { seccomp: false, landlock: Number } },
  {
    lacks: 'seccomp and Landlock',
    calls: [SECCOMP, LANDLOCK_CREATE_RULESET],
    error: EPERM,
    left: { seccomp: false, landlock: null },
  },
];
for (const { lacks, calls, error, left } of kernels) {
  t.test(`without ${lacks} scans go on, unless it is required`, async (t) => {
    const warning = new RegExp(`not confined fully: ${lacks} can't be had`);
    const clean = { kind: 'clean' };
    t.match(await lacking(t, error, calls, 'auto'), [{ confinement: left, warning }, clean, clean]);
    const refused = { kind: 'incomplete', reason: /engine error: SANDBOX=required/ };
    const refusal = { refused: new RegExp(`SANDBOX=required, but ${lacks} can't be had`) };
    t.match(await lacking(t, error, calls, 'required'), [refusal, refused, refused]);
  });
}

t.test('a sandbox that half works is none: the service says so, and a thread does not scan in it', async (t) => {
  const LANDLOCK_RESTRICT_SELF = 446;
  const [found, ...verdicts] = await lacking(t, EPERM, [LANDLOCK_RESTRICT_SELF], 'auto');
  t.match(found, { confinement: null, warning: /Landlock does not restrict the thread/ });
  t.match(verdicts, [{ kind: 'incomplete' }, { kind: 'incomplete' }]);
});
