// The embedded Postgres' threads: one makes its folder, one is PGlite over it behind a UNIX socket until it is told to stop.
import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { type EmbeddedOrder, type EmbeddedReport, embeddedTaskShape } from './embedded-task.js';
import { messageOfError } from './store-error.js';

/** One for each server process, of which there are three while one that hangs is replaced, and room for those that look in beside them. */
const CONNECTIONS = 8;

if (parentPort === null) throw new Error('This file is a worker thread');
const port = parentPort;
const task = embeddedTaskShape.parse(workerData);

function report(message: EmbeddedReport): void {
  port.postMessage(message);
}

/** Made aside and moved: a first start that is killed half way leaves nothing that looks like a database. */
async function make(folder: string): Promise<void> {
  const unfinished = `${folder}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  const fresh = await PGlite.create(unfinished);
  await fresh.close();
  renameSync(unfinished, folder);
  report({ kind: 'made' });
}

async function serve(folder: string, socketPath: string): Promise<void> {
  const database = await PGlite.create(folder);
  const server = new PGLiteSocketServer({ db: database, path: socketPath, maxConnections: CONNECTIONS });
  await server.start();
  port.on('message', (order: EmbeddedOrder) => {
    if (order === 'answer') report({ kind: 'alive' });
    else stop(server, database);
  });
  report({ kind: 'ready' });
}

async function stop(server: PGLiteSocketServer, database: PGlite): Promise<void> {
  try {
    await server.stop();
    await database.close();
    report({ kind: 'stopped' });
  } catch (error) {
    report({ kind: 'failed', message: messageOfError(error) });
  }
}

try {
  if (task.kind === 'make') await make(task.folder);
  else await serve(task.folder, task.socketPath);
} catch (error) {
  report({ kind: 'failed', message: messageOfError(error) });
}
