// `sluice serve`: the supervisor, with this same program as the server process that it keeps running.
import { readConfig } from '../config.js';
import { createLog } from '../log.js';
import { mainPath } from '../paths.js';
import { supervise } from '../supervisor.js';

/** Resolves with the exit code. A wrong configuration throws here already, so that it is printed once. */
export async function serve(env: NodeJS.ProcessEnv): Promise<number> {
  const { logLevel } = readConfig(env);
  const { log, flush } = createLog(logLevel);
  try {
    return await supervise({
      command: process.execPath,
      arguments: [...process.execArgv, mainPath, 'serve', '--no-supervisor'],
      log,
    });
  } finally {
    await flush();
  }
}
