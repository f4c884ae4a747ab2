// The core of the serving thread, seen from outside: while it is busy it has one for itself, and what the service starts beside it knows of it.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { startEmbedded } from '../src/store/embedded/embedded.js';
import { temporaryFolder } from './fixtures/folder.js';
import { startServer } from './fixtures/server.js';
import { until } from './fixtures/until.js';

const path = fileURLToPath(new URL('cores-process.js', import.meta.url));

/** As the kernel writes it: `0-1,4`. */
function coresOf(place: string): string {
  const [, cores = ''] = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync(`/proc/${place}/status`, 'latin1')) ?? [];
  return cores;
}

function numbersIn(cores: string): number[] {
  return cores.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}

const all = numbersIn(coresOf('self'));

/** Cores of the main thread, and of the others, each once. */
function coresOfThreads(pid: number): { main: string; others: string[] } {
  const others = readdirSync(`/proc/${pid}/task`).filter((thread) => Number(thread) !== pid);
  return { main: coresOf(`${pid}`), others: [...new Set(others.map((thread) => coresOf(`${pid}/task/${thread}`)))] };
}

async function startOn(t: Test, cores: readonly number[]): Promise<ChildProcess & { pid: number }> {
  // Few descriptors, so that they can be used up.
  const program = 'ulimit -n 256; exec taskset -c "$@"';
  const child = spawn('sh', ['-c', program, 'sh', cores.join(), process.execPath, path], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  const { pid } = child;
  if (pid === undefined) throw new Error('It has no number');
  return Object.assign(child, { pid });
}

async function startedBy(child: ChildProcess): Promise<string[]> {
  const told = once(child, 'message');
  child.send('start');
  const [pids]: number[][] = await told;
  return (pids ?? []).map((pid) => coresOf(`${pid}`));
}

const listOf = (cores: readonly number[]): string =>
  cores
    .join()
    .replace(/^(\d+),(\d+)$/, (whole, one, other) => (Number(other) === Number(one) + 1 ? `${one}-${other}` : whole));

t.test('of two cores a busy serving thread has one for itself, and an idle one has not', async (t) => {
  const two = all.slice(0, 2);
  const child = await startOn(t, two);
  const shared = { main: listOf(two), others: [listOf(two)] };
  // Of one core there is nothing to share out.
  const kept = two.length < 2 ? shared : { main: `${two[1]}`, others: [`${two[0]}`] };
  const isPlaced = (as: typeof shared) => () => JSON.stringify(coresOfThreads(child.pid)) === JSON.stringify(as);
  await until(isPlaced(shared));
  child.send('busy');
  await until(isPlaced(kept));
  t.same(await startedBy(child), [shared.main, kept.others[0]], 'what it starts has both, or leaves it that core');
  await until(isPlaced(kept));
  child.send('idle');
  await until(isPlaced(shared));
  t.same(await startedBy(child), [shared.main, kept.others[0]]);
  t.same(coresOfThreads(child.pid), shared, 'it still has both itself');
});

t.test('while there is no descriptor left the core stays where it is, and it is given back afterwards', async (t) => {
  const two = all.slice(0, 2);
  const child = await startOn(t, two);
  child.send('busy');
  const own = `${two.at(-1)}`;
  await until(() => coresOf(`${child.pid}`) === own);
  const told = once(child, 'message');
  child.send('use up');
  child.send('idle');
  const [taken] = await told;
  t.ok(Number(taken) > 100);
  await until(() => coresOf(`${child.pid}`) === listOf(two));
  t.equal(child.exitCode, null);
});

t.test('there is nothing to share out of one core', async (t) => {
  const child = await startOn(t, all.slice(0, 1));
  child.send('busy');
  t.same(await startedBy(child), [`${all[0]}`, `${all[0]}`]);
});

/** Before a server: from one SIGPWR to the next the kernel seems to say that its thread never rests. How much it gets on a machine that is busy with other tests is nobody's to say. */
const NEVER_RESTS = `
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { openSync, readSync } = fs;
  let isBusy = false;
  let used = null;
  process.on('SIGPWR', () => { isBusy = !isBusy; });
  fs.openSync = (path, ...rest) => {
    const descriptor = openSync(path, ...rest);
    if (String(path).endsWith('/schedstat')) used = descriptor;
    return descriptor;
  };
  fs.readSync = (descriptor, bytes, ...rest) =>
    descriptor === used ? bytes.write(\`\${isBusy ? performance.now() * 1e6 : 0} 0 0\`) : readSync(descriptor, bytes, ...rest);
  syncBuiltinESMExports();`;

t.test('a server that serves alone has it, too', async (t) => {
  const two = all.slice(0, 2);
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(NEVER_RESTS)}`;
  const server = await startServer({ t, by: ['taskset', '-c', two.join()], env: { NODE_OPTIONS } });
  const turn = async (cores: string): Promise<void> => {
    process.kill(server.pid, 'SIGPWR');
    await until(() => coresOf(`${server.pid}`) === cores);
  };
  await turn(`${two.at(-1)}`);
  await turn(listOf(two));
  t.equal(await server.stop(), 0);
});

t.test('the embedded database leaves the core free, where one process serves', async (t) => {
  for (const processes of [1, 2]) {
    const embedded = await startEmbedded({ dataDirectory: temporaryFolder(t), processes });
    const leaves = processes === 1 && all.length === 2;
    t.same(numbersIn(coresOf(`${embedded.pid}`)), leaves ? all.slice(0, -1) : all, `${processes}`);
    await embedded.stop();
  }
});
