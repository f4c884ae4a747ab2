// How many server processes there will be: as many as the configuration says, where they can share a listening socket; and the line of the log about it.
import type { Config } from '../config/types.js';
import type { Log } from '../log.js';

type Count = Pick<Config, 'processes' | 'processesBecause' | 'scanThreads'>;

/** Throws where several processes were asked for by their number and can't be had. */
export function countProcesses(config: Count, canShare: boolean, log: Pick<Log, 'info' | 'warn'>): number {
  const { processes, processesBecause: because, scanThreads } = config;
  if (canShare) {
    if (because !== null) log.info({ processes, because, scanThreads }, 'PROCESSES=auto');
    return processes;
  }
  log.warn('the addon for a shared listening socket is not built: a replacement refuses connections for a moment');
  if (because === null && processes > 1) {
    throw new Error('PROCESSES above 1 needs the native addon: run "npm run build"');
  }
  if (because !== null) log.info({ processes: 1, because: 'the addon is not built' }, 'PROCESSES=auto');
  return 1;
}
