// The thread of the embedded Postgres: PGlite behind its socket server, off the main thread.
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { z } from 'zod';

const { dataDirectory, socketPath } = z.object({ dataDirectory: z.string(), socketPath: z.string() }).parse(workerData);

const db = await PGlite.create({ dataDir: dataDirectory });
const server = new PGLiteSocketServer({ db, path: socketPath, maxConnections: 16 });
await server.start();

parentPort?.once('message', async () => {
  await server.stop();
  await db.close();
  parentPort?.postMessage('stopped');
});
parentPort?.postMessage('started');
