// The embedded Postgres: started in a thread of its own under the data directory, reached through a socket that only we can open.
import { accessSync, chmodSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { embeddedWorkerPath } from '../paths.js';
import { lockDataDirectory } from './data-lock.js';
import type { PostgresAddress } from './postgres.js';

export interface Embedded {
  readonly address: PostgresAddress;
  /** Closes the database; connections must be closed before. */
  stop(): Promise<void>;
}

/**
 * Starts it; the first start makes the database, which takes some seconds. Rejects when the folder can't be written or
 * another process has it. `onExit` is told when its thread dies by itself.
 */
export async function startEmbedded(dataDirectory: string, onExit: (error: Error) => void): Promise<Embedded> {
  prepare(dataDirectory);
  const unlock = lockDataDirectory(dataDirectory);
  // Not in the data directory: the path of a UNIX socket may have 107 bytes. Only we may enter this folder.
  const socketDirectory = mkdtempSync(join(tmpdir(), 'sluice-postgres-'));
  const cleanUp = (): void => {
    rmSync(socketDirectory, { recursive: true, force: true });
    unlock();
  };
  const worker = new Worker(embeddedWorkerPath, {
    workerData: { dataDirectory: join(dataDirectory, 'postgres'), socketPath: join(socketDirectory, '.s.PGSQL.5432') },
  });
  try {
    await message(worker, 'started');
  } catch (error) {
    await worker.terminate();
    cleanUp();
    throw error;
  }
  worker.on('error', onExit);
  return {
    address: { kind: 'socket', directory: socketDirectory },
    async stop() {
      const stopped = message(worker, 'stopped');
      worker.postMessage('stop');
      await stopped;
      await worker.terminate();
      cleanUp();
    },
  };
}

function prepare(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true });
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
    // Key hashes and password hashes lie here.
    chmodSync(directory, 0o700);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`The data directory ${directory} can't be used (DATA_DIR): ${why}`);
  }
}

function message(worker: Worker, expected: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const onExit = (): void => reject(new Error('The embedded database ended unexpectedly'));
    worker.once('error', reject);
    worker.once('exit', onExit);
    worker.once('message', (text: unknown) => {
      worker.off('error', reject);
      worker.off('exit', onExit);
      if (text === expected) resolve();
      else reject(new Error(`The embedded database said ${String(text)}`));
    });
  });
}
