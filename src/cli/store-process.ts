// The process of the embedded database: it outlives the server processes that use it, and ends with their supervisor.
import { readConfig } from '../config.js';
import { setCoreDumps } from '../core-dumps.js';
import { createLog } from '../log.js';
import { startEmbedded } from '../store/embedded.js';
import { shareSession } from '../store/turns.js';
import { READY_MESSAGE } from '../supervisor-messages.js';
import { EXIT_UNAVAILABLE } from '../supervisor-slot.js';
import { EXIT_CLEAN, EXIT_SOFTWARE } from './exit-codes.js';

/** When the supervisor is gone the servers still write what they have for so long. */
const LAST_WRITES_MS = 45_000;

/** Resolves with the exit code. `socketDirectory`: where the servers will look for it. */
export async function runStore(env: NodeJS.ProcessEnv, socketDirectory: string): Promise<number> {
  const config = readConfig(env);
  const { log, flush } = createLog(config.logLevel);
  setCoreDumps(config.coreDumps, log);
  // A terminal or a service manager sends them to all of us; the servers need this process until they have ended.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => undefined);
  const wanted = new Promise<'told' | 'orphaned'>((resolve) => {
    process.on('message', () => resolve('told'));
    process.on('disconnect', () => resolve('orphaned'));
    if (!process.connected) resolve('orphaned');
  });
  try {
    log.info({ dataDirectory: config.dataDirectory }, 'starting the embedded database');
    const embedded = await startEmbedded(config.dataDirectory, (error) => {
      log.fatal({ err: error }, 'the embedded database');
      void flush().finally(() => process.exit(EXIT_SOFTWARE));
    });
    const turns = await shareSession(socketDirectory, embedded.socketDirectory);
    if (process.connected) process.send?.(READY_MESSAGE);
    if ((await wanted) === 'orphaned') {
      const late = new Promise<void>((resolve) => setTimeout(resolve, LAST_WRITES_MS).unref());
      await Promise.race([turns.unused(), late]);
    }
    await turns.stop();
    await embedded.stop();
    return EXIT_CLEAN;
  } catch (error) {
    log.fatal({ err: error }, 'the service could not start');
    return EXIT_UNAVAILABLE;
  } finally {
    await flush();
  }
}
