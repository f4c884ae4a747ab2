// What a supervisor that was killed leaves behind: a database server that still runs is ended, and what a dead one left is no obstacle.

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOfError } from '../../error-text.js';
import { answers } from '../data-lock.js';
import { codeOf, StoreInUse } from '../store-error.js';
import { openSocketPlace, SOCKET_PORT } from './connection.js';
import type { StoreLog } from './server.js';

/** It ends by itself with the last server that uses it. If it does not, it gets signals, each more urgent than the one before. */
const STEPS: readonly { readonly signal: NodeJS.Signals | null; readonly withinMs: number }[] = [
  { signal: null, withinMs: 3_000 },
  { signal: 'SIGINT', withinMs: 10_000 },
  { signal: 'SIGQUIT', withinMs: 5_000 },
  { signal: 'SIGKILL', withinMs: 5_000 },
];
const POLL_MS = 20;

/**
 * Call with the lock on the data directory held. `folder` is the data folder of PostgreSQL. PostgreSQL itself believes a
 * process id that has been given to another process since, as happens in each container that is started again.
 */
export async function clearLeftServer(folder: string, socketDirectory: string, log: StoreLog): Promise<void> {
  const pidPath = join(folder, 'postmaster.pid');
  const socketPath = join(socketDirectory, `.s.PGSQL.${SOCKET_PORT}`);
  const pid = existsSync(pidPath) ? Number(readFileSync(pidPath, 'utf8').split('\n')[0]) : Number.NaN;
  if (isServerOf(pid, folder)) await end(pid, folder, log);
  if (await isListening(socketDirectory)) {
    throw new StoreInUse(
      `${folder} is in use by a PostgreSQL outside of this container: stop it, or set another DATA_DIR`,
    );
  }
  for (const path of [pidPath, socketPath, `${socketPath}.lock`]) rmSync(path, { force: true });
}

/** The kernel answers for a listener in whatever container it is. By the short path: of a longer one Node 24 says EINVAL, and Node 22 cuts it off. */
async function isListening(socketDirectory: string): Promise<boolean> {
  if (!existsSync(socketDirectory)) return false;
  const { options, release } = openSocketPlace(socketDirectory);
  try {
    return await answers(`${options.host}/.s.PGSQL.${SOCKET_PORT}`);
  } finally {
    release();
  }
}

async function end(pid: number, folder: string, log: StoreLog): Promise<void> {
  log.warn({ pid }, 'the database server of a supervisor that was killed is still there: waiting for its end');
  for (const { signal, withinMs } of STEPS) {
    if (signal !== null) {
      log.warn({ pid, signal }, 'ending it');
      send(pid, signal, folder);
    }
    const deadlineMs = performance.now() + withinMs;
    while (performance.now() < deadlineMs) {
      if (!isServerOf(pid, folder)) return;
      await delay(POLL_MS);
    }
  }
  throw new StoreInUse(`${folder} is in use by the process ${pid}, which can't be ended`);
}

function send(pid: number, signal: NodeJS.Signals, folder: string): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It has gone by itself.
    if (codeOf(error) === 'ESRCH') return;
    throw new StoreInUse(
      `${folder} is in use by the process ${pid}, which is not ours to end: ${messageOfError(error)}`,
    );
  }
}

/** A process id alone says nothing: by its command line, which everybody may read, it serves this folder. */
function isServerOf(pid: number, folder: string): boolean {
  if (!Number.isInteger(pid)) return false;
  try {
    const [program, ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return program?.endsWith('/postgres') === true && args[args.indexOf('-D') + 1] === folder;
  } catch {
    // It is gone.
    return false;
  }
}
