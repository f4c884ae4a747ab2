// The lock on a data directory: one live process at a time. A claim is a listening socket in the directory, which the
// kernel silences when its process ends however it ends; so it also tells containers apart that share a volume but no process ids.
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { accessSync, chmodSync, closeSync, constants, existsSync, openSync, readdirSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { codeOf, messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { isGone, makeFolder } from '../paths.js';
import { createRounds } from '../waiting/limiter.js';
import { StoreError, StoreInUse } from './store-error.js';

/** Below the data folder. */
export const LOCK_FOLDER = 'open';
/** PID.SUFFIX.sock: the suffix is unique, so a claim's name never comes back. */
const CLAIM = /^(\d+)\.([A-Za-z0-9]+)\.sock$/;
/** Starters at the same moment see each other and step back; each tries again after a time of its own. */
const ATTEMPTS = 4;
const STEP_BACK_MIN_MS = 20;
const STEP_BACK_MAX_MS = 120;

/**
 * Makes it where it isn't there, and the folder `below` in it, since rights alone don't say that it can be written: below /proc root has all of them.
 * Throws a StoreError.
 */
export function makeDataDirectory(dataDirectory: string, below: string): void {
  try {
    const folder = join(dataDirectory, below);
    // What else is there is for who uses it to judge.
    if (!existsSync(folder)) makeFolder(folder);
    accessSync(dataDirectory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new StoreError(`The data directory ${dataDirectory} can't be written: ${messageOfError(error)}`, {
      cause: error,
    });
  }
}

/** Acts once. */
export type Release = () => Promise<void>;

/** Between two looks whether somebody has removed the claim: without one another service could begin beside this one. */
const LOOK_MS = 1_000;

/** Returns the release, or throws a StoreError that names the process that has the directory. */
export async function lockDataDirectory(
  dataDirectory: string,
  log: Pick<Log, 'warn' | 'error'>,
  lookMs = LOOK_MS,
): Promise<Release> {
  let lock = await lockOrThrow(dataDirectory);
  let problem: string | null = null;

  async function look(): Promise<void> {
    if (!isGone(lock.path)) return;
    const gone = lock;
    lock = await lockOrThrow(dataDirectory);
    problem = null;
    log.warn({ folder: dataDirectory }, 'somebody has removed the lock on the data folder: it is locked again');
    await gone.release();
  }

  const rounds = createRounds(lookMs, look, (error) => {
    const before = problem;
    problem = messageOfError(error);
    if (problem !== before) log.error({ reason: problem }, 'somebody has removed the lock on the data folder');
  });
  return async () => {
    await rounds.stop().catch(() => undefined);
    await lock.release();
  };
}

async function lockOrThrow(dataDirectory: string) {
  for (let attempt = 1; ; attempt += 1) {
    const lock = await tryLock(dataDirectory, randomBytes(8).toString('hex'));
    if (lock.locked) return lock;
    if (attempt === ATTEMPTS) {
      throw new StoreInUse(`${dataDirectory} is in use by the process ${lock.owner}: stop it, or set another DATA_DIR`);
    }
    await delay(randomInt(STEP_BACK_MIN_MS, STEP_BACK_MAX_MS));
  }
}

/** Tries once. The suffix is letters and digits that no other claim has ever had. Throws a StoreError when it can't tell. */
export async function tryLock(directory: string, suffix: string) {
  const folder = join(directory, LOCK_FOLDER);
  makeFolder(folder);
  chmodSync(folder, 0o700);
  const mine = `${process.pid}.${suffix}.sock`;
  const release = await claim(folder, mine);
  let owner: number | null;
  try {
    owner = await otherOwner(folder, mine);
  } catch (error) {
    await release();
    throw error;
  }
  if (owner === null) return { locked: true, path: join(folder, mine), release } as const;
  await release();
  return { locked: false, owner } as const;
}

/** Claims first and looks second: of two starters at least the later one sees the other, so there are never two owners. */
async function claim(folder: string, name: string): Promise<Release> {
  // The path of a socket may have 107 bytes. Through its descriptor every folder has a short path.
  const descriptor = openSync(folder, 'r');
  const server = createServer((socket) => socket.destroy());
  try {
    server.listen(throughDescriptor(descriptor, name));
    await once(server, 'listening');
  } catch (error) {
    closeSync(descriptor);
    throw new StoreError(`${folder} can't hold the lock, a UNIX socket: ${messageOfError(error)}`, { cause: error });
  }
  server.unref();
  let released: Promise<void> | null = null;
  async function release(): Promise<void> {
    await new Promise((resolve) => server.close(resolve));
    try {
      rmSync(join(folder, name), { force: true });
    } catch {
      // Of a disk that takes no changes any more, say. It is silent, as that of a dead process, and goes with the next look of another starter.
    } finally {
      closeSync(descriptor);
    }
  }
  return () => {
    // A second time the number of the descriptor may be another file's.
    released ??= release();
    return released;
  };
}

/** The process id of a live claim that isn't ours, as its owner sees it. Claims of the dead are removed on the way. */
async function otherOwner(folder: string, mine: string): Promise<number | null> {
  const descriptor = openSync(folder, 'r');
  try {
    for (const name of readdirSync(folder)) {
      const pid = CLAIM.exec(name)?.[1];
      if (name === mine || pid === undefined) continue;
      if (await answers(throughDescriptor(descriptor, name))) return Number(pid);
      rmSync(join(folder, name), { force: true });
    }
    return null;
  } finally {
    closeSync(descriptor);
  }
}

/** Proc(5): a link to the folder, for every path of this process. */
const throughDescriptor = (descriptor: number, name: string): string => `/proc/self/fd/${descriptor}/${name}`;

/** The kernel accepts connections for a process that is busy or stopped. Only its refusal says that the process is dead. */
export function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', (error) => resolve(!['ECONNREFUSED', 'ENOENT'].includes(codeOf(error) ?? '')));
  });
}
