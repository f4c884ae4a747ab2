// `sluice serve`: the supervisor, with this same program as the server processes that it keeps running.
import { type Config, readConfig } from '../config/config.js';
import { createShares } from '../door.js';
import { canShareListener, giveUp, openListener } from '../http/connections.js';
import { CLAMD_FILE_SYSTEMS, CLAMD_FILE_THREADS } from '../limits.js';
import { createLog, type Log } from '../log.js';
import { JOURNAL_FOLDER, mainPath } from '../paths.js';
import { openPlaces, type Places } from '../service/places.js';
import { makeDataDirectory } from '../store/data-lock.js';
import { systemProgram } from '../store/embedded/account.js';
import { createSuspects, createUpdater, type KeptStore, keepStore, UPDATE_EVERY_MS } from '../supervisor/kept.js';
import { fewRights, setCoreDumps, watchTerminal } from '../supervisor/own-process.js';
import { EXIT_UNAVAILABLE } from '../supervisor/slot.js';
import { supervise } from '../supervisor/supervisor.js';
import { EXIT_CLEAN } from './output.js';
import { leaveServiceFile } from './service-place.js';

/** Resolves with the exit code. A wrong configuration throws here already, so that it is printed once. */
export async function serve(env: NodeJS.ProcessEnv): Promise<number> {
  const isStopped = listenFromTheStart();
  const config = readConfig(env);
  const { log, flush } = createLog(config.logLevel);
  setCoreDumps(config.coreDumps, log);
  try {
    return await superviseServers({ wanted: config, log, isStopped }, () =>
      leaveServiceFile(config.dataDirectory, env, log),
    );
  } catch (error) {
    log.fatal({ err: error }, 'the service could not start');
    return EXIT_UNAVAILABLE;
  } finally {
    await flush();
  }
}

/**
 * Returns what says whether a stop was asked for before the supervisor has listeners of its own. Until then, and while the database ends, there is nothing
 * to be replaced or read again: these signals end nothing.
 */
function listenFromTheStart(): () => boolean {
  const isTerminalGone = watchTerminal();
  let isStopped = false;
  const stop = (): void => {
    isStopped = true;
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, stop);
  process.on('SIGHUP', () => {
    if (isTerminalGone()) stop();
  });
  process.on('SIGUSR2', () => undefined);
  return () => isStopped;
}

/**
 * Of glibc's memory, beside one for each scan thread. By itself it gives each of the many threads of a server one of its own, up to eight for each core,
 * and what is free in one is of no use to another.
 */
const OTHER_ARENAS = 2;
/** As many as Node has by itself. */
const NODES_THREADS = 4;

interface SupervisorStart {
  readonly wanted: Config;
  readonly log: Log;
  readonly isStopped: () => boolean;
}

/** `leaveFile` is called when the folder is this process's: commands find the service by it. */
async function superviseServers(start: SupervisorStart, leaveFile: () => void): Promise<number> {
  const { wanted } = start;
  const listener = canShareListener() ? await openListener(wanted.host, wanted.port) : null;
  const places = await openPlaces(wanted);
  try {
    return await superviseOn({ listener, places }, start, leaveFile);
  } finally {
    places.release();
  }
}

async function superviseOn(
  sockets: Omit<Held, 'store'>,
  { wanted, log, isStopped }: SupervisorStart,
  leaveFile: () => void,
): Promise<number> {
  const { listener } = sockets;
  const config = { ...wanted, processes: countProcesses(wanted, listener !== null, log) };
  if (config.databaseUrl !== null) {
    makeDataDirectory(config.dataDirectory, JOURNAL_FOLDER);
    leaveFile();
    return isStopped() ? EXIT_CLEAN : await superviseWith(config, log, { ...sockets, store: null });
  }
  const { dataDirectory, databaseUser: user, processes } = config;
  log.info({ dataDirectory }, 'starting the embedded database');
  const store = await keepStore({ dataDirectory, user, processes }, log);
  leaveFile();
  try {
    return isStopped() ? EXIT_CLEAN : await superviseWith(config, log, { ...sockets, store });
  } finally {
    await store.stop();
  }
}

interface Held {
  readonly listener: number | null;
  readonly places: Places;
  readonly store: KeptStore | null;
}

async function superviseWith(config: Config, log: Log, held: Held): Promise<number> {
  const suspects = createSuspects({ dataDirectory: config.dataDirectory, log, now: Date.now });
  const updates = config.signaturesUpdate ?? (systemProgram('freshclam') === null ? 'off' : 'auto');
  const update = createUpdater({ log, everyMs: updates === 'auto' ? UPDATE_EVERY_MS : null });
  const [command = process.execPath, ...args] = programOf(config, log, held);
  try {
    return await supervise({
      command,
      arguments: [...args, 'serve', '--no-supervisor'],
      log,
      processes: config.processes,
      // What auto was at the start stays until the end: each server counts its share of cores and memory from it.
      environment: {
        PROCESSES: String(config.processes),
        MALLOC_ARENA_MAX: process.env['MALLOC_ARENA_MAX'] ?? String(config.scanThreads + OTHER_ARENAS),
        UV_THREADPOOL_SIZE: process.env['UV_THREADPOOL_SIZE'] ?? String(poolThreads(config)),
      },
      suspects,
      update,
      listener: held.listener,
      places: held.places.sockets,
      shares: config.processes > 1 ? createShares() : null,
      onStop() {
        if (held.listener !== null) giveUp(held.listener);
        held.places.close();
      },
      store: held.store,
    });
  } finally {
    await update.stop();
  }
}

/** Of Node's pool: passwords, names of hosts and the journal need some also while all folders of clamd's protocol hang. */
function poolThreads({ clamd }: Config): number {
  return NODES_THREADS + (clamd === null ? 0 : CLAMD_FILE_THREADS * (clamd.paths.length + CLAMD_FILE_SYSTEMS + 1));
}

/** This program as a process that scans: without root's capabilities, if it is root's. */
function programOf(config: Config, log: Log, { listener }: Held): string[] {
  const ports = [config.adminPort, ...(listener === null ? [config.port] : [])];
  const { prefix, problem } = fewRights({ dataDirectory: config.dataDirectory, ports });
  if (problem !== null) log.warn({ reason: problem }, "the processes that scan keep root's capabilities");
  return [...prefix, process.execPath, ...HEAP_OPTIONS, ...process.execArgv, mainPath];
}

/**
 * Without pretenuring: V8 puts objects among the old ones at their birth, where those made at the same place have lived long before, while the
 * server began. An old object keeps all that it points to until the next collection of the whole heap. For what lives for a request that is
 * the whole request.
 *
 * New objects have V8's default of 16 MB. With 8 MB rows on their way to the database become old ones under load: a scan takes some 4 % more of
 * the serving thread, and the process holds more memory, not less.
 */
export const HEAP_OPTIONS: readonly string[] = ['--no-allocation-site-pretenuring'];

type ProcessCount = Pick<Config, 'processes' | 'processesBecause' | 'scanThreads'>;

/** Throws where several processes were asked for by their number and can't be had. */
export function countProcesses(config: ProcessCount, canShare: boolean, log: Pick<Log, 'info' | 'warn'>): number {
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
