// `sluice serve`: the supervisor, with this same program as the server processes that it keeps running.
import { type Config, readConfig } from '../config.js';
import { openListener } from '../http/listener.js';
import { createLog, type Log } from '../log.js';
import { mainPath } from '../paths.js';
import { supervise } from '../supervisor.js';
import { EXIT_UNAVAILABLE } from '../supervisor-slot.js';
import { startStoreProcess } from '../supervisor-store.js';
import { createSuspects } from '../supervisor-suspects.js';

/** Resolves with the exit code. A wrong configuration throws here already, so that it is printed once. */
export async function serve(env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const { log, flush } = createLog(config.logLevel);
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
  const listener = await openListener(config.host, config.port);
  const program = [process.execPath, ...process.execArgv, mainPath] as const;
  if (config.databaseUrl !== null)
    return await superviseWith(config, log, { listener, program, socketDirectory: null });
  const start = await startStoreProcess([...program, 'embedded-store'], log);
  if (!start.started) return start.exitCode;
  const { socketDirectory, stop } = start.store;
  try {
    return await superviseWith(config, log, { listener, program, socketDirectory });
  } finally {
    await stop();
  }
}

interface Held {
  readonly listener: number;
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
