// Runs the test files, each as a process of its own, the long ones first; prints what failed, and the totals last.
//
// Not the runner of tap, of which only the library is used: it puts loaders before each test file, for TypeScript, mocks and
// coverage, which nothing here uses. Every process and every worker thread of a test pays for them, with half a second of a core and more.
import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { availableCores } from '../src/config/config.js';
import { type Result, resultOf, withoutPasses } from './result.js';

/** Generous: on a busy machine a server takes many times as long to start. */
const TIMEOUT_SECONDS = 600;
/** tap ends a test at its timeout and says what it waits for; a process that is still there so much later is killed. */
const KILL_AFTER_SECONDS = TIMEOUT_SECONDS + 30;
const cores = availableCores();
/** Each may hold several servers with engine and database. */
const JOB_BYTES = 1024 ** 3;
const JOBS_MAX = Math.min(10, Math.max(2, Math.floor(process.availableMemory() / JOB_BYTES)));
/** Four more than there are cores: most tests wait for servers, databases and signals part of their time. */
const JOBS = Math.min(cores + 4, 8, JOBS_MAX);
/** How often is looked whether cores are idle. */
const LOOK_MS = 1_000;
/** Who has more of them has room for another file: some files wait for most of their time, and others never do. */
const IDLE_CORES = 0.3;
/** What takes longest begins first, so that nothing of it is left to run alone at the end. */
const LONG: readonly string[] = [
  'dashboard/dashboard.test.js',
  'dashboard/pages.test.js',
  'cli/containment.test.js',
  'api/idempotency.test.js',
  'dashboard/operators.test.js',
  'store/redis.test.js',
  'containers/containers.test.js',
  'cli/replacement.test.js',
  'clamd/hostile.test.js',
  'cli/signatures.test.js',
  'cluster-run/cluster-run.test.js',
  'dashboard/keyboard.test.js',
  'api/shares.test.js',
  'faults/history.test.js',
  'store/redis-cluster.test.js',
  'operator/changes.test.js',
  'deploy/proxies.test.js',
  'store/redis-sentinel.test.js',
  'operator/routes.test.js',
  'api/async.test.js',
  'cli/serve.test.js',
  'history/route.test.js',
  'faults/async.test.js',
  'api/verdict-cache.test.js',
  'cli/accounts.test.js',
  'cli/stand-in.test.js',
  'supervisor/supervisor.test.js',
  'checks/regular-expressions.test.js',
  'api/history.test.js',
  'docs/examples.test.js',
  'api/metrics.test.js',
  'account/key-routes.test.js',
  'cluster/nodes.test.js',
  'engine/threads/stand-ins.test.js',
  'api/operations.test.js',
  'history/writer.test.js',
  'api/key-reads.test.js',
  'cli/service-place.test.js',
  'api/shared-port.test.js',
  'native/overlap.test.js',
  'faults/leftovers.test.js',
  'clamd/account.test.js',
  'api/history-time.test.js',
  'api/generated-client.test.js',
  'download/faults.test.js',
  'api/urls.test.js',
  'http/standing-still.test.js',
  'api/load.test.js',
  'api/webhooks.test.js',
  'engine/yara/rules.test.js',
  'api/history-at-once.test.js',
  'history/clock.test.js',
  'api/raw-table.test.js',
  'api/quota-kept.test.js',
  'deploy/production.test.js',
  'faults/hangs.test.js',
  'scan/arena.test.js',
  'api/metadata.test.js',
  'clamd/overload.test.js',
  'billing/outage.test.js',
  'account/sessions.test.js',
  'engine/relearning.test.js',
];

/** Files whose subject is HTTP: they also run over node:http, unless one library is named for the whole run. */
const OVER_BOTH: readonly string[] = [
  'api/raw-table.test.js',
  'api/strangers.test.js',
  'api/connections.test.js',
  'api/framing.test.js',
  'api/left-scans.test.js',
  'api/clients.test.js',
  'api/pages.test.js',
  'api/unread.test.js',
  'api/slow-links.test.js',
  'api/many-uploads.test.js',
];

/** A tmpfs on every Linux. */
const MEMORY_DIRECTORY = '/dev/shm';
/** What the files of a few tests need at once, several times over. */
const ROOM_BYTES = 4 * 1024 ** 3;

interface Run {
  readonly path: string;
  /** What it has beside the environment of this process. */
  readonly env: Readonly<Record<string, string>>;
}

const root = fileURLToPath(new URL('.', import.meta.url));

/** Those whose path has one of the arguments in it; without arguments all. */
function testRuns(wanted: readonly string[]): Run[] {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.test.js'));
  const unknown = [...LONG, ...OVER_BOTH].filter((path) => !files.includes(path));
  if (unknown.length > 0) throw new Error(`There is no ${unknown.join(', ')}`);
  const rank = (path: string): number => (LONG.includes(path) ? LONG.indexOf(path) : LONG.length);
  return files
    .filter((path) => wanted.length === 0 || wanted.some((part) => path.includes(part)))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .flatMap((path) => {
      const isTwice = OVER_BOTH.includes(path) && process.env['HTTP_SERVER'] === undefined;
      return [{ path, env: {} }, ...(isTwice ? [{ path, env: { HTTP_SERVER: 'node' } }] : [])];
    });
}

/** Each server begins with a thousand small files: a disk can take as long to make them as the server takes to start. */
function makeTemporaryFolder(): string {
  const folder = mkdtempSync(join(hasRoomInMemory() ? MEMORY_DIRECTORY : tmpdir(), 'tests-'));
  // As the system's own: servers of other accounts keep their files there as well.
  chmodSync(folder, 0o1777);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
  return folder;
}

function hasRoomInMemory(): boolean {
  // Tests put programs there and start them.
  const mount = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .find((line) => line.split(' ')[1] === MEMORY_DIRECTORY);
  if (mount === undefined || /\b(noexec|ro)\b/.test(mount)) return false;
  const { bavail, bsize } = statfsSync(MEMORY_DIRECTORY);
  return Math.min(bavail * bsize, process.availableMemory()) >= ROOM_BYTES;
}

function runFile({ path, env }: Run, temporaryFolder: string): Promise<Result> {
  const startedMs = performance.now();
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--enable-source-maps', join(root, 'file.js'), join(root, path)], {
      env: { ...process.env, ...env, TMPDIR: temporaryFolder, TAP: '1', TAP_TIMEOUT: String(TIMEOUT_SECONDS) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    // Apart as well: a line of stderr may come between two pieces of a line.
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      output += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    let isKilled = false;
    const timer = setTimeout(() => {
      isKilled = true;
      output += `\nKilled after ${KILL_AFTER_SECONDS} s.\n`;
      child.kill('SIGKILL');
      // A process that the test has left behind may hold them.
      child.stdout.destroy();
      child.stderr.destroy();
    }, KILL_AFTER_SECONDS * 1000);
    child.on('error', (error) => {
      output += `\n${error.message}\n`;
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
      const result = resultOf(stdout, code, isKilled ? 'SIGKILL' : signal);
      if (!result.ok) process.stdout.write(`\n${withoutPasses(output)}\n`);
      const settings = Object.entries(env).map(([variable, value]) => ` ${variable}=${value}`);
      const name = relative(process.cwd(), join(root, path)) + settings.join('');
      const how = result.ok ? 'ok' : `FAILED (${isKilled ? 'too long' : (signal ?? `exit code ${code}`)})`;
      process.stdout.write(`${how}: ${name}, ${result.pass} of ${result.total}, ${seconds} s\n`);
      for (const what of result.skipped) process.stdout.write(`skip: ${what}\n`);
      resolve(result);
    });
  });
}

/** Cores that had nothing to do since the last call. In a container what the machine does beside it counts as ours. */
function idleMeter(): () => number {
  const read = () => ({ ms: performance.now(), idleMs: cpus().reduce((sum, { times }) => sum + times.idle, 0) });
  let before = read();
  return () => {
    const now = read();
    const idle = (now.idleMs - before.idleMs) / (now.ms - before.ms);
    before = now;
    return idle - (cpus().length - cores);
  };
}

const runs = testRuns(process.argv.slice(2));
const waiting = [...runs];
const temporaryFolder = makeTemporaryFolder();
const results: Result[] = [];
const running = new Set<Promise<void>>();

/** Runs the next file, and then others until as many run as are wanted. */
function begin(): void {
  const run = waiting.shift();
  if (run === undefined) return;
  const ending = runFile(run, temporaryFolder).then((result) => {
    results.push(result);
    running.delete(ending);
    while (running.size < JOBS && waiting.length > 0) begin();
  });
  running.add(ending);
}

while (running.size < JOBS && waiting.length > 0) begin();
const idleCores = idleMeter();
const looking = setInterval(() => {
  if (idleCores() > IDLE_CORES && running.size < JOBS_MAX) begin();
}, LOOK_MS);
while (running.size > 0) await Promise.race(running);
clearInterval(looking);

const sum = (name: 'total' | 'pass' | 'fail' | 'skip' | 'todo'): number =>
  results.reduce((all, result) => all + result[name], 0);
const totals = (['total', 'pass', 'fail', 'skip', 'todo'] as const)
  .filter((name) => name === 'total' || sum(name) > 0)
  .map((name) => `${name}: ${sum(name)}`);
process.stdout.write(`\n# ${results.filter(({ ok }) => ok).length} of ${runs.length} files passed\n`);
process.stdout.write(`# { ${totals.join(', ')} }\n`);
if (runs.length === 0 || !results.every(({ ok }) => ok)) process.exitCode = 1;
