// HAProxy with the files of deploy/, their addresses changed to those of the run.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../fixtures/free-port.js';
import { accepts, deployPath } from '../fixtures/proxies.js';
import { until } from '../fixtures/until.js';

export interface Haproxy {
  readonly port: number;
  signal(signal: NodeJS.Signals): void;
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** In front of nodes at these addresses, without TLS. */
export function frontOf(folder: string, nodes: readonly string[]): Promise<Haproxy> {
  return startHaproxy(folder, 'haproxy.cfg', [/bind :443 .*/, nodes]);
}

/** In front of Postgres at these addresses. */
export function databaseProxyOf(folder: string, servers: readonly string[]): Promise<Haproxy> {
  return startHaproxy(folder, 'haproxy-postgres.cfg', [/bind :5432/, servers]);
}

async function startHaproxy(
  folder: string,
  file: string,
  [bind, servers]: readonly [RegExp, readonly string[]],
): Promise<Haproxy> {
  const port = await freePort();
  const lines = servers.map((server, index) => `    server number${index} ${server}\n`);
  const text = readFileSync(deployPath(file), 'utf8')
    .replace(bind, `bind 127.0.0.1:${port}`)
    .replaceAll(/^ {4}server .*\n/gm, '');
  const path = join(folder, file);
  writeFileSync(path, text + lines.join(''));
  let child: ChildProcess | null = null;

  async function start(): Promise<void> {
    const started = spawn('/usr/sbin/haproxy', ['-db', '-f', path], { stdio: 'ignore' });
    child = started;
    await until(async () => {
      if (started.exitCode !== null) throw new Error(`HAProxy does not start with ${path}`);
      return await accepts(port);
    });
  }

  await start();
  return {
    port,
    start,
    signal: (signal) => void child?.kill(signal),
    async kill() {
      if (child === null || child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGCONT');
      child.kill('SIGKILL');
      await gone;
    },
  };
}
