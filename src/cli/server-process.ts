// The server process: the service with its signals, its fatal errors and its exit codes, under the supervisor or alone.
import { constants } from 'node:os';
import { performance } from 'node:perf_hooks';
import { isatty } from 'node:tty';
import { readConfig } from '../config.js';
import type { Config } from '../config-types.js';
import { setCoreDumps } from '../core-dumps.js';
import { createLog, type EventLog, type Log } from '../log.js';
import type { Service } from '../service.js';
import { startEngine } from '../service-engine.js';
import { LISTENER_DESCRIPTOR, orderShape } from '../supervisor-messages.js';
import { EXIT_UNAVAILABLE } from '../supervisor-slot.js';
import { reachableUrl, showFirstAccount } from './credentials.js';
import { EXIT_CLEAN, EXIT_SIGNAL_BASE, EXIT_SOFTWARE } from './exit-codes.js';
import { sayLastWords } from './last-words.js';
import { type Superior, superior } from './superior.js';

/** A wish to be replaced is said again so often, while there is reason for it: the last replacement may have failed. */
const WISH_MS = 10_000;
const MIB = 1024 * 1024;

/**
 * Resolves with the exit code once the service has stopped. The stop is asked for by a signal, or by the end of the IPC
 * channel: then the supervisor is gone, and nobody may keep the port.
 */
export async function runServer(env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const { log, flush } = createLog(config.logLevel);
  setCoreDumps(config.coreDumps, log);
  sayLastWords(log, () => void flush().finally(() => process.exit(EXIT_SOFTWARE)));
  // The listeners come first: a stop that arrives during the start must be heard.
  const stop = stopWish(log, flush);
  // To the whole process group, it is for the supervisor.
  process.on('SIGUSR2', () => undefined);
  log.info({ bootMillis: Math.round(performance.now()) }, 'starting');
  try {
    return await serveUntil(stop, config, log, flush);
  } finally {
    await flush();
  }
}

async function serveUntil(
  stop: Promise<string>,
  config: Config,
  log: EventLog,
  flush: () => Promise<void>,
): Promise<number> {
  const above = await superior(stop);
  if (above === null) {
    log.info({ reason: await stop }, 'stopping');
    log.info('stopped');
    return EXIT_CLEAN;
  }
  const hasSuccessor = heardOfSuccessor();
  let service: Service;
  let isFull = false;
  try {
    const engine = startEngine(config, log, {
      inFlightPath: above.start.inFlightPath,
      onHung(sha256) {
        log.error({ sha256 }, 'a scan thread does not come back');
        above.report({ kind: 'replace', reason: 'a scan thread does not come back', sha256 });
      },
      onOutOfMemory(residentBytes, enoughBytes) {
        if (!isFull) {
          const { memoryLimitBytes: limitBytes } = config;
          const enough = `MEMORY_LIMIT_MB=${Math.ceil(enoughBytes / MIB)}`;
          log.warn({ residentBytes, limitBytes, enough }, 'memory is over its bound: no scan is taken');
        }
        isFull = true;
        above.report({ kind: 'restart', reason: 'memory is over its bound' });
      },
    });
    // Read while the signatures load: all that a server needs takes some hundred milliseconds.
    const { startService } = await import('../service.js');
    service = await startService(config, log, engine, {
      ...above.start,
      listener: above.start.inheritsListener ? LISTENER_DESCRIPTOR : null,
    });
    service.refuse(above.start.refused);
    if (!(await takesPlace(service, above, stop, log))) {
      await service.stop();
      return EXIT_CLEAN;
    }
    const port = await service.listen();
    above.ready();
    if (service.account !== null) {
      showFirstAccount(service.account, reachableUrl(config, port), config.dataDirectory, log);
    }
  } catch (error) {
    log.fatal({ err: error }, 'the service could not start');
    return EXIT_UNAVAILABLE;
  }
  const onHangUp = (): void => void service.reloadSignatures();
  process.on('SIGHUP', onHangUp);
  const tellEngine = reportEngine(service, above);
  const wish = setInterval(() => {
    tellEngine();
    if (service.hungThreads > 0) {
      above.report({ kind: 'replace', reason: 'scan threads do not come back', sha256: null });
    }
  }, WISH_MS);
  const why = await Promise.race([stop, above.retire.then(() => 'replaced')]);
  log.info({ reason: why }, 'stopping');
  clearInterval(wish);
  process.off('SIGHUP', onHangUp);
  if (why === 'replaced') await leavePlace(service, above, hasSuccessor() ? stop : null);
  await service.stop();
  log.info('stopped');
  await end(service, above, flush);
  return EXIT_CLEAN;
}

/**
 * Waits for its turn, if another process is still there, with everything ready; hears what the supervisor says from now on.
 * Resolves false when it is to end instead.
 */
async function takesPlace(service: Service, above: Superior, stop: Promise<string>, log: Log): Promise<boolean> {
  above.onRefused((digests) => service.refuse(digests));
  void above.alone.then(() => service.alone());
  if (!above.start.takesOver) return true;
  return await new Promise((resolve) => {
    // Once told to serve it does, with whatever it gets to: nobody else is there any more.
    let isDecided = false;
    const decide = (serves: boolean): void => {
      isDecided = true;
      resolve(serves);
    };
    void above.serve.then(() => decide(true));
    void stop.then(() => decide(false));
    void whyNot(service, above.start.mayStandIn === true).then((reason) => {
      if (isDecided) return;
      if (reason === null) return above.report({ kind: 'prepared' });
      log.error({ reason }, 'not taking over: the process that serves does it better');
      decide(false);
    });
  });
}

/** Resolves, when the first load has ended, with why this process can't serve as well as the one that it is to replace; null: it can. */
async function whyNot(service: Service, mayStandIn: boolean): Promise<string | null> {
  try {
    const { standsInFor } = await service.ready();
    return standsInFor === null || mayStandIn ? null : `rules alone stand in for ClamAV, because: ${standsInFor}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Tells the supervisor what serves, each time when that has changed, and nothing before there is something to tell. */
function reportEngine(service: Service, above: Superior): () => void {
  let told: boolean | null = null;
  let isLoaded = false;
  const tell = (): void => {
    if (!isLoaded || told === service.isComplete) return;
    told = service.isComplete;
    above.report({ kind: 'loaded', complete: told });
  };
  const loaded = (): void => {
    isLoaded = true;
    tell();
  };
  void service.ready().then(loaded, loaded);
  return tell;
}

/** Answers whether another process serves while this one leaves, as the order to retire says. */
function heardOfSuccessor(): () => boolean {
  let has = true;
  process.on('message', (message) => {
    const order = orderShape.safeParse(message);
    if (order.success && order.data.kind === 'retire') has = order.data.hasSuccessor ?? true;
  });
  return () => has;
}

/** Without a successor (`stop` null) nobody serves meanwhile: what is open is answered, and idle connections end at once. */
async function leavePlace(service: Service, above: Superior, stop: Promise<string> | null): Promise<void> {
  await service.handOver();
  above.report({ kind: 'retired', endsWithinMs: service.endsWithinMs(stop !== null) });
  if (stop !== null) await Promise.race([service.drain(), stop]);
}

/** A thread that is in native code keeps the process from exiting, in whatever way but this one. */
async function end(service: Service, above: Superior, flush: () => Promise<void>): Promise<void> {
  if (service.lateThreads === 0) return;
  await flush();
  await above.reportStopped();
  process.kill(process.pid, 'SIGKILL');
}

/**
 * Resolves with what asked for the stop. Alone, a second SIGTERM or SIGINT ends the process at once. Under the supervisor
 * it does not: a terminal's Ctrl-C or a service manager signals both of us, and the supervisor passes its own on; it is
 * the one that counts, and kills.
 */
function stopWish(log: Log, flush: () => Promise<void>): Promise<string> {
  // `connected` alone won't do: it is false already when the supervisor died while this program was being read.
  const supervised = process.send !== undefined;
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (asked && !supervised) {
        log.warn({ signal }, 'second stop signal: exiting at once');
        void flush().finally(() => process.exit(EXIT_SIGNAL_BASE + constants.signals[signal]));
        return;
      }
      asked = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
    // A terminal that goes away sends it too, and is none any more when it arrives: nobody is left to stop us otherwise.
    const onTerminal = isatty(1);
    process.on('SIGHUP', () => {
      if (onTerminal && !isatty(1)) resolve('the terminal is gone');
    });
    const onDisconnect = (): void => resolve('the supervisor is gone');
    process.on('disconnect', onDisconnect);
    if (supervised && !process.connected) onDisconnect();
  });
}
