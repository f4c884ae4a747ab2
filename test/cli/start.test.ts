// `npm start` and its server process, ended as terminals, service managers and accidents end them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { mainPath, packageJsonPath } from '../../src/paths.js';
import { MAJOR } from '../../src/store/embedded/server.js';
import { seedMigrated } from '../fixtures/embedded-template.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { childrenOf } from '../fixtures/processes.js';
import { until } from '../fixtures/until.js';

interface Program {
  readonly pid: number;
  readonly dataDirectory: string;
  /** Everything it has printed up to the text. */
  printed(text: string): Promise<string>;
  /** What was printed, once it and everything that shares its output has ended. */
  readonly ended: Promise<string>;
  disconnect(): void;
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function descendants(pid: number): number[] {
  const children = childrenOf(pid);
  return [...children, ...children.flatMap(descendants)];
}

/** In a process group of its own, as from a terminal. `prepare` gets the data directory before it. */
async function run(
  t: Test,
  command: string,
  args: readonly string[],
  channel: 'ipc' | 'ignore',
  prepare: (dataDirectory: string) => void = () => undefined,
): Promise<Program> {
  const directory = temporaryFolder(t);
  const dataDirectory = join(directory, 'data');
  // The first start of all is serve.test.ts'.
  await seedMigrated(dataDirectory);
  prepare(dataDirectory);
  const child = spawn(command, args, {
    cwd: dirname(packageJsonPath),
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], PORT: '0', DATA_DIR: dataDirectory },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', channel],
  });
  const { pid, stdout, stderr } = child;
  if (pid === undefined || stdout === null || stderr === null) throw new Error(`${command} did not start`);
  let output = '';
  for (const stream of [stdout, stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      child.emit('printed');
    });
  }
  let closed = false;
  // Not 'close': it doesn't come any more after disconnect().
  const ended = Promise.all([once(stdout, 'end'), once(stderr, 'end')]).then(() => {
    closed = true;
    child.emit('printed');
    return output;
  });
  t.teardown(() => {
    if (!closed) process.kill(-pid, 'SIGKILL');
  });
  return {
    pid,
    dataDirectory,
    ended,
    disconnect: () => child.disconnect(),
    async printed(text) {
      while (!output.includes(text)) {
        if (closed) throw new Error(`The output ended without "${text}":\n${output}`);
        await once(child, 'printed');
      }
      return output;
    },
  };
}

for (const [signal, from, target] of [
  ['SIGTERM', 'sent to npm alone', (pid: number) => pid],
  ['SIGTERM', 'sent by a service manager to all of its processes', (pid: number) => -pid],
  ['SIGINT', 'sent by a terminal to its process group', (pid: number) => -pid],
] as const) {
  t.test(`${signal} ${from} stops in order what npm start has started`, async (t) => {
    const npm = await run(t, 'npm', ['start'], 'ignore');
    await npm.printed('"listening"');
    process.kill(target(npm.pid), signal);
    const output = await npm.ended;
    t.match(output, '"msg":"stopped"');
    t.notMatch(output, 'killing the server');
  });
}

t.test('what npm start has started ends in order when its terminal is taken away', async (t) => {
  const terminal = await run(t, 'script', ['-qec', 'npm start', '/dev/null'], 'ignore');
  await terminal.printed('"listening"');
  const below = descendants(terminal.pid);
  process.kill(terminal.pid, 'SIGKILL');
  await until(() => !below.some(isThere));
  t.notOk(existsSync(join(terminal.dataDirectory, 'postgres', String(MAJOR), 'postmaster.pid')), 'nor the database');
});

t.test('a database that cannot be started ends what npm start has started, with one reason', async (t) => {
  const npm = await run(t, 'npm', ['start'], 'ignore', (dataDirectory) => {
    const folder = join(dataDirectory, 'postgres', String(MAJOR));
    writeFileSync(join(folder, 'PG_VERSION'), 'no version\n');
  });
  const output = await npm.ended;
  t.match(
    output,
    /"err":\{"type":"StoreError","message":"The embedded database can't be started: FATAL: .*"msg":"the service could not start"/,
  );
  t.notMatch(output, '"listening"');
  t.equal(output.split('"level":60').length, 2);
});

t.test('a server whose supervisor dies before it can hear of it stops', async (t) => {
  const server = await run(t, process.execPath, [mainPath, 'serve', '--no-supervisor'], 'ipc');
  server.disconnect();
  t.match(await server.ended, '"msg":"stopped"');
});
