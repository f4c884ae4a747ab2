// `sluice serve`: the supervisor, with this same program as the server processes that it keeps running.
import { readConfig } from '../config.js';
import type { Config } from '../config-types.js';
import { setCoreDumps } from '../core-dumps.js';
import { canShareListener, openListener } from '../http/listener.js';
import { createLog, type Log } from '../log.js';
import { mainPath } from '../paths.js';
import { supervise } from '../supervisor.js';
import { EXIT_UNAVAILABLE } from '../supervisor-slot.js';
import { keepStore } from '../supervisor-store.js';
import { createSuspects } from '../supervisor-suspects.js';
import { EXIT_CLEAN } from './exit-codes.js';

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

async function superviseServers(config: Config, log: Log): Promise<number> {
  const listener = canShareListener() ? await openListener(config.host, config.port) : null;
  if (listener === null) {
    if (config.processes > 1) throw new Error('PROCESSES above 1 needs the native addon: run "npm run build"');
    log.warn('the addon for a shared listening socket is not built: a replacement refuses connections for a moment');
  }
  const program = [process.execPath, ...process.execArgv, mainPath] as const;
  if (config.databaseUrl !== null)
    return await superviseWith(config, log, { listener, program, socketDirectory: null });
  // A stop must be heard during the first start as well. The supervisor has listeners of its own afterwards.
  let isStopped = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      isStopped = true;
    });
  }
  const { dataDirectory, databaseUser: user, processes } = config;
  log.info({ dataDirectory }, 'starting the embedded database');
  const { socketDirectory, stop } = await keepStore({ dataDirectory, user, processes }, log);
  try {
    return isStopped ? EXIT_CLEAN : await superviseWith(config, log, { listener, program, socketDirectory });
  } finally {
    await stop();
  }
}

interface Held {
  readonly listener: number | null;
  readonly socketDirectory: string | null;
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
      suspects,
      ...held,
    });
  } finally {
    suspects.remove();
  }
}
