// `sluice serve`: the supervisor, with this same program as the server processes that it keeps running.
import { type Config, readConfig } from '../config.js';
import { openListener } from '../http/listener.js';
import { createLog, type Log } from '../log.js';
import { mainPath } from '../paths.js';
import { supervise } from '../supervisor.js';
import { EXIT_UNAVAILABLE } from '../supervisor-slot.js';
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
  const suspects = createSuspects({ dataDirectory: config.dataDirectory, log, now: Date.now });
  try {
    return await supervise({
      command: process.execPath,
      arguments: [...process.execArgv, mainPath, 'serve', '--no-supervisor'],
      log,
      processes: config.processes,
      listener,
      suspects,
    });
  } finally {
    suspects.remove();
  }
}
