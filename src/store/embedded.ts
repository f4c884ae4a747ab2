// The embedded Postgres seen from the main thread: who owns its folder, its thread and its socket, and in which order they end.
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { embeddedWorkerPath } from '../paths.js';
import { lockDataDirectory, type Release, SOCKET_FOLDER_PREFIX, SOCKET_NAME } from './data-lock.js';
import type { EmbeddedOrder, EmbeddedReport, EmbeddedTask } from './embedded-task.js';
import { codeOf, messageOfError, StoreError } from './store-error.js';
import { within } from './within.js';

/** unix(7): 108 bytes, the last of them zero. */
const SOCKET_PATH_BYTES = 107;
/** A thread that has not ended by then hangs, as PGlite does when the disk is full; Postgres repairs what that leaves. */
const STOP_TIMEOUT_MS = 10_000;
/** The thread is asked for a sign of life so often, and given up after so many in a row without one: two minutes. */
const WATCH: Watch = { intervalMs: 10_000, missesMax: 12 };
/** The sticky bit: a folder like /tmp, where many have files. */
const SHARED = 0o1000;

export interface Embedded {
  /** Holds the socket; only this user can enter it. */
  readonly socketDirectory: string;
  /** Ends the thread with everything on disk, or rejects with it ended anyhow. Close the connections before. Acts once. */
  stop(): Promise<void>;
}

export interface Watch {
  readonly intervalMs: number;
  /** A single query may keep the thread from answering for so many intervals. */
  readonly missesMax: number;
}

/**
 * Starts Postgres over DATA_DIR/postgres, or throws a StoreError. `onDeath` hears of a thread that ends unasked later on, or
 * that hangs and was ended; without it that is an uncaught exception, for nothing can be stored any more.
 */
export async function startEmbedded(
  dataDirectory: string,
  onDeath: (error: Error) => void = surface,
  watch: Watch = WATCH,
): Promise<Embedded> {
  prepareFolder(dataDirectory);
  const socketDirectory = mkdtempSync(join(tmpdir(), SOCKET_FOLDER_PREFIX));
  const undo: Release[] = [async () => rmSync(socketDirectory, { recursive: true, force: true })];
  const release = async () => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const socketPath = join(socketDirectory, SOCKET_NAME);
    if (Buffer.byteLength(socketPath) > SOCKET_PATH_BYTES) {
      throw new StoreError(`${tmpdir()} is too long a path for a socket in it: set TMPDIR to a shorter one`);
    }
    undo.push(await lockDataDirectory(dataDirectory, socketDirectory));
    const folder = join(dataDirectory, 'postgres');
    if (!existsSync(folder)) await (await runThread({ kind: 'make', folder }, 'made')).terminate();
    chmodSync(folder, 0o700);
    const thread = await startThread({ kind: 'serve', folder, socketPath }, onDeath, watch);
    let stopping: Promise<void> | null = null;
    const stop = () => {
      stopping ??= thread.stop().finally(release);
      return stopping;
    };
    return { socketDirectory, stop };
  } catch (error) {
    await release();
    throw error;
  }
}

function surface(error: Error): void {
  throw error;
}

/**
 * What we put into it is closed to others in any case. The folder itself is closed too when it is ours alone: somebody who
 * names /tmp or /srv must not lose it, and a volume that belongs to root and is lent to our group can't be changed by us.
 */
function prepareFolder(dataDirectory: string): void {
  try {
    mkdirSync(dataDirectory, { recursive: true, mode: 0o700 });
    const entries = readdirSync(dataDirectory);
    const isOurs = entries.length === 0 || entries.includes('postgres');
    if (isOurs && (statSync(dataDirectory).mode & SHARED) === 0) closeToOthers(dataDirectory);
    accessSync(dataDirectory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new StoreError(`The data directory ${dataDirectory} can't be written: ${messageOfError(error)}`);
  }
}

function closeToOthers(folder: string): void {
  try {
    chmodSync(folder, 0o700);
  } catch (error) {
    if (codeOf(error) !== 'EPERM') throw error;
  }
}

/** Resolves with the thread once it has reported that; its failure ends it. */
async function runThread(task: EmbeddedTask, wanted: 'made' | 'ready'): Promise<Worker> {
  const worker = new Worker(embeddedWorkerPath, { workerData: task });
  try {
    await reportOf(worker, wanted);
    return worker;
  } catch (error) {
    await worker.terminate();
    throw new StoreError(`The embedded store can't be opened: ${messageOfError(error)}`);
  }
}

async function startThread(
  task: EmbeddedTask,
  onDeath: (error: Error) => void,
  watch: Watch,
): Promise<{ stop: Release }> {
  const worker = await runThread(task, 'ready');
  let exited = false;
  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      exited = true;
      resolve();
    });
  });
  const dies = (error: unknown) => onDeath(new StoreError(`The embedded store has died: ${messageOfError(error)}`));
  const exits = (code: number) => dies(new Error(`its thread ended with ${code}`));
  worker.on('error', dies);
  worker.on('exit', exits);
  const unwatch = watchThread(worker, watch, () => {
    worker.off('exit', exits);
    worker.terminate().then(() => dies(new Error('its thread hung; is the disk full?')), dies);
  });
  return {
    async stop() {
      unwatch();
      if (exited) return;
      worker.off('error', dies);
      worker.off('exit', exits);
      const stopped = reportOf(worker, 'stopped');
      tell(worker, 'stop');
      try {
        await within(stopped, STOP_TIMEOUT_MS);
      } catch (error) {
        throw new StoreError(`The embedded store did not stop in order: ${messageOfError(error)}`);
      } finally {
        await worker.terminate();
        await ended;
      }
    },
  };
}

/** A thread that hangs burns a core and keeps every query waiting, also when its cause is gone. */
function watchThread(worker: Worker, { intervalMs, missesMax }: Watch, onHang: () => void): () => void {
  // Counted, not timed: a process that was stopped and continued finds one interval over, not all of them.
  let misses = 0;
  worker.on('message', (report: EmbeddedReport) => {
    if (report.kind === 'alive') misses = 0;
  });
  const timer = setInterval(() => {
    if (misses >= missesMax) {
      clearInterval(timer);
      onHang();
      return;
    }
    misses += 1;
    tell(worker, 'answer');
  }, intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}

function tell(worker: Worker, order: EmbeddedOrder): void {
  worker.postMessage(order);
}

/** Waits for the thread to say so; its failure, its exception and its end reject. */
async function reportOf(worker: Worker, wanted: 'made' | 'ready' | 'stopped'): Promise<void> {
  let unlisten: () => unknown = () => undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const onMessage = (report: EmbeddedReport) => {
        if (report.kind === wanted) resolve();
        else if (report.kind === 'failed') reject(new Error(report.message));
      };
      const onExit = (code: number) => reject(new Error(`its thread ended with ${code}`));
      worker.on('message', onMessage).on('error', reject).on('exit', onExit);
      unlisten = () => worker.off('message', onMessage).off('error', reject).off('exit', onExit);
    });
  } finally {
    unlisten();
  }
}
