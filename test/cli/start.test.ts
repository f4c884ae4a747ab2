// `npm start` and its server process, ended as terminals, service managers and accidents end them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { mainPath, packageJsonPath } from '../../src/paths.js';
import { seedMigrated } from '../fixtures/embedded-template.js';

interface Program {
  readonly pid: number;
  /** Everything it has printed up to the text. */
  printed(text: string): Promise<string>;
  /** What was printed, once it and everything that shares its output has ended. */
  readonly ended: Promise<string>;
  disconnect(): void;
}

/** In a process group of its own, as from a terminal. */
async function run(t: Test, command: string, args: readonly string[], channel: 'ipc' | 'ignore'): Promise<Program> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-start-'));
  // The first start of all is serve.test.ts'.
  await seedMigrated(join(directory, 'data'));
  const child = spawn(command, args, {
    cwd: dirname(packageJsonPath),
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], PORT: '0', DATA_DIR: join(directory, 'data') },
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
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    pid,
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

t.test('a server whose supervisor dies before it can hear of it stops', async (t) => {
  const server = await run(t, process.execPath, [mainPath, 'serve', '--no-supervisor'], 'ipc');
  server.disconnect();
  t.match(await server.ended, '"msg":"stopped"');
});
