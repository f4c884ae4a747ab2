// Runs the test files, each as a process of its own, the long ones first; prints what failed, and the totals last.
//
// Not the runner of tap, of which only the library is used: it puts four loaders before each test file, for TypeScript, mocks and
// coverage that nothing here uses. Every process and every worker thread of a test pays for them, with half a second of a core and more.
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';

/** Generous: on a busy machine a server with the embedded database takes many times as long to start. */
const TIMEOUT_SECONDS = 600;
/** tap ends a test at its timeout and says what it waits for; a process that is still there so much later is killed. */
const KILL_AFTER_SECONDS = TIMEOUT_SECONDS + 30;
/** One more than there are cores: most tests wait for servers, databases and signals part of their time. */
const JOBS = availableParallelism() + 1;
/** What takes longest begins first, so that nothing of it is left to run alone at the end. */
const LONG: readonly string[] = [
  'cli/containment.test.js',
  'store/embedded.test.js',
  'supervisor/supervisor.test.js',
  'faults/history.test.js',
  'cli/accounts.test.js',
  'engine/reload.test.js',
  'faults/leftovers.test.js',
  'faults/crashes.test.js',
  'store/redis.test.js',
  'cli/signatures.test.js',
  'api/operations.test.js',
  'cli/serve.test.js',
  'store/turns.test.js',
  'history/route.test.js',
  'api/history.test.js',
  'api/reload.test.js',
  'engine/rules.test.js',
  'faults/sessions.test.js',
  'history/clock.test.js',
  'cli/start.test.js',
];

interface Result {
  readonly ok: boolean;
  readonly total: number;
  readonly pass: number;
  readonly fail: number;
  readonly skip: number;
  readonly todo: number;
}

const root = fileURLToPath(new URL('.', import.meta.url));

/** Those whose path has one of the arguments in it; without arguments all. */
function testFiles(wanted: readonly string[]): string[] {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.test.js'));
  const unknown = LONG.filter((path) => !files.includes(path));
  if (unknown.length > 0) throw new Error(`There is no ${unknown.join(', ')}`);
  const rank = (path: string): number => (LONG.includes(path) ? LONG.indexOf(path) : LONG.length);
  return files
    .filter((path) => wanted.length === 0 || wanted.some((part) => path.includes(part)))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

function runFile(path: string): Promise<Result> {
  const startedMs = performance.now();
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--enable-source-maps', join(root, path)], {
      env: { ...process.env, TAP: '1', TAP_TIMEOUT: String(TIMEOUT_SECONDS) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    }
    const timer = setTimeout(() => {
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
      const result = resultOf(output, code, signal);
      if (!result.ok) process.stdout.write(`\n${withoutPasses(output)}\n`);
      const name = relative(process.cwd(), join(root, path));
      const how = result.ok ? 'ok' : `FAILED (${signal ?? `exit code ${code}`})`;
      process.stdout.write(`${how}: ${name}, ${result.pass} of ${result.total}, ${seconds} s\n`);
      resolve(result);
    });
  });
}

/** tap ends with its totals, which leave out what is zero: # { total: 12, pass: 11, fail: 1 }. Without them it was cut short. */
function resultOf(output: string, code: number | null, signal: NodeJS.Signals | null): Result {
  const totals = [...output.matchAll(/^# \{ total: .*\}$/gm)].at(-1)?.[0] ?? '';
  const count = (name: string): number => Number(new RegExp(`\\b${name}: (\\d+)`).exec(totals)?.[1] ?? 0);
  const [total, pass, fail, skip, todo] = [count('total'), count('pass'), count('fail'), count('skip'), count('todo')];
  const ok = code === 0 && signal === null && fail === 0 && total > 0;
  return { ok, total, pass, fail: ok ? 0 : Math.max(1, fail), skip, todo };
}

function withoutPasses(output: string): string {
  return output
    .split('\n')
    .filter((line) => !/^\s*(ok \d.*|\d+\.\.\d+.*)?$/.test(line))
    .join('\n');
}

const files = testFiles(process.argv.slice(2));
const waiting = [...files];
const results: Result[] = [];
async function work(): Promise<void> {
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) results.push(await runFile(path));
}
await Promise.all(Array.from({ length: JOBS }, work));

const sum = (name: 'total' | 'pass' | 'fail' | 'skip' | 'todo'): number =>
  results.reduce((all, result) => all + result[name], 0);
const totals = (['total', 'pass', 'fail', 'skip', 'todo'] as const)
  .filter((name) => name === 'total' || sum(name) > 0)
  .map((name) => `${name}: ${sum(name)}`);
process.stdout.write(`\n# ${results.filter(({ ok }) => ok).length} of ${files.length} files passed\n`);
process.stdout.write(`# { ${totals.join(', ')} }\n`);
if (files.length === 0 || !results.every(({ ok }) => ok)) process.exitCode = 1;
