// `sluice serve`: the supervisor, with this same program as the server processes that it keeps running.
import { readConfig } from '../config/config.js';
import type { Config } from '../config/types.js';
import { EXIT_CLEAN } from '../exit-codes.js';
import { canShareListener, openListener } from '../http/listener.js';
import { createLog, type Log } from '../log.js';
import { mainPath } from '../paths.js';
import { setCoreDumps } from '../supervisor/core-dumps.js';
import { EXIT_UNAVAILABLE } from '../supervisor/slot.js';
import { type KeptStore, keepStore } from '../supervisor/store.js';
import { supervise } from '../supervisor/supervisor.js';
import { createSuspects } from '../supervisor/suspects.js';
import { HEAP_OPTIONS } from './heap.js';
import { countProcesses } from './process-count.js';

/** Resolves with the exit code. A wrong configuration throws here already, so that it is printed once. */
export async function serve(env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const { log, flush } = createLog(config.logLevel);
  setCoreDumps(config.coreDumps, log);
  try {
    return await superviseServers(config, log);
  } catch (error) {
    log.fatal({ err: error }, 'the service could not start');
    return EXIT_UNAVAILABLE;
  } finally {
    await flush();
  }
}

async function superviseServers(wanted: Config, log: Log): Promise<number> {
  const listener = canShareListener() ? await openListener(wanted.host, wanted.port) : null;
  const config = { ...wanted, processes: countProcesses(wanted, listener !== null, log) };
  const program = [process.execPath, ...HEAP_OPTIONS, ...process.execArgv, mainPath] as const;
  if (config.databaseUrl !== null) return await superviseWith(config, log, { listener, program, store: null });
  // A stop must be heard before the supervisor has listeners of its own as well.
  let isStopped = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      isStopped = true;
    });
  }
  const { dataDirectory, databaseUser: user, processes } = config;
  log.info({ dataDirectory }, 'starting the embedded database');
  const store = await keepStore({ dataDirectory, user, processes }, log);
  try {
    return isStopped ? EXIT_CLEAN : await superviseWith(config, log, { listener, program, store });
  } finally {
    await store.stop();
  }
}

interface Held {
  readonly listener: number | null;
  readonly store: KeptStore | null;
  readonly program: readonly [string, ...string[]];
}

async function superviseWith(config: Config, log: Log, { program, ...held }: Held): Promise<number> {
  const suspects = createSuspects({ dataDirectory: config.dataDirectory, log, now: Date.now });
  const [command, ...args] = program;
  try {
    return await supervise({
      command,
      arguments: [...args, 'serve', '--no-supervisor'],
      log,
      processes: config.processes,
      // What auto was at the start stays until the end: each server counts its share of cores and memory from it.
      environment: { PROCESSES: String(config.processes) },
      suspects,
      ...held,
    });
  } finally {
    suspects.remove();
  }
}
