// One server process between its supervisor and its service: when it begins to serve, what it reports meanwhile, and how it leaves.
import type { Config } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import type { EventLog } from '../log.js';
import { type StartedEngine, startEngine } from '../service/engine.js';
import type { Places } from '../service/places.js';
import type { Service } from '../service/service.js';
import type { SupervisorChannel } from '../supervisor/channel.js';

export interface ServerParts {
  readonly config: Config;
  readonly log: EventLog;
  readonly supervisor: SupervisorChannel;
  /** The listening socket that was handed down; null: it opens its own. */
  readonly listener: number | null;
  /** Those of the protocols beside HTTP. */
  readonly places: Places;
  /** Resolves with what asks for the stop. */
  readonly stop: Promise<string>;
}

/** A request to be replaced is sent again so often, while there is reason for it: the last replacement may have failed. */
const REPORT_MS = 10_000;
const MIB = 1024 * 1024;

/** Resolves with the service when it may listen; with null, and everything stopped, when it is to end instead. */
export async function prepareService(parts: ServerParts): Promise<Service | null> {
  const { config, log, supervisor, listener, places, stop } = parts;
  const engine = await startReportingEngine(parts);
  // Read while the signatures load: all that a server needs takes some hundred milliseconds.
  const { startService } = await import('../service/service.js');
  if (!(await hasStore(supervisor, stop))) {
    log.info({ reason: await stop }, 'stopping');
    await engine.stop();
    log.info('stopped');
    return null;
  }
  const service = await startService(config, log, engine, {
    ...{ ...supervisor.start, listener, places },
    reportOfOperator: supervisor.report,
  });
  service.refuse(supervisor.start.refused);
  supervisor.onUpdate((view) => service.noteUpdate(view));
  if (await takesPlace(service, parts)) return service;
  await service.stop();
  return null;
}

/** Serves until a stop is asked for, or another process takes over. */
export async function serveUntilStopped(service: Service, { log, supervisor, stop }: ServerParts): Promise<void> {
  const reportIfChanged = reportEngine(service, supervisor);
  const timer = setInterval(() => {
    reportIfChanged();
    if (service.hungThreads > 0) {
      supervisor.report({ kind: 'replace', reason: 'scan threads do not come back', sha256: null });
    }
  }, REPORT_MS);
  const end = await Promise.race([stop, supervisor.retire]);
  log.info({ reason: typeof end === 'string' ? end : 'replaced' }, 'stopping');
  clearInterval(timer);
  if (typeof end !== 'string') await leavePlace(service, supervisor, end.hasSuccessor ? stop : null);
  await service.stop();
  log.info('stopped');
}

function startReportingEngine({ config, log, supervisor }: ServerParts): Promise<StartedEngine> {
  let isFull = false;
  return startEngine(config, log, {
    inFlight: supervisor.start.inFlight,
    onHung(sha256) {
      log.error({ sha256 }, 'a scan thread does not come back');
      supervisor.report({ kind: 'replace', reason: 'a scan thread does not come back', sha256 });
    },
    onOutOfMemory(residentBytes, enoughBytes) {
      if (!isFull) {
        const { memoryLimitBytes: limitBytes } = config;
        const enough = `MEMORY_LIMIT_MB=${Math.ceil(enoughBytes / MIB)}`;
        log.warn({ residentBytes, limitBytes, enough }, 'memory is over its bound: no scan is taken');
      }
      isFull = true;
      supervisor.report({ kind: 'restart', reason: 'memory is over its bound' });
    },
  });
}

/** Waits for the embedded database. Resolves false when it is to end instead. */
async function hasStore(supervisor: SupervisorChannel, stop: Promise<string>): Promise<boolean> {
  return await Promise.race([supervisor.store.then(() => true), stop.then(() => false)]);
}

/**
 * Waits for its turn, if another process is still there, with everything ready; hears what the supervisor says from now on.
 * Resolves false when it is to end instead.
 */
async function takesPlace(service: Service, { supervisor, stop, log }: ServerParts): Promise<boolean> {
  supervisor.onRefused((digests) => service.refuse(digests));
  void supervisor.alone.then(() => service.alone());
  if (!supervisor.start.takesOver) return true;
  return await new Promise((resolve) => {
    // After the order to serve it does, with what it has: nobody else is there any more.
    let isDecided = false;
    const decide = (serves: boolean): void => {
      isDecided = true;
      resolve(serves);
    };
    void supervisor.serve.then(() => decide(true));
    void stop.then(() => decide(false));
    void whyNot(service, supervisor.start.mayStandIn === true).then((reason) => {
      if (isDecided) return;
      if (reason === null) return supervisor.report({ kind: 'prepared' });
      log.error({ reason }, 'not taking over: the process that serves does it better');
      decide(false);
    });
  });
}

/** Resolves, when the first load has ended, with why this process can't serve as well as the one that it is to replace; null: it can. */
async function whyNot(service: Service, mayStandIn: boolean): Promise<string | null> {
  try {
    const { standsInFor, label } = await service.ready;
    if (standsInFor === null || mayStandIn) return null;
    return `${label} stands in for ${standsInFor.name}, because: ${standsInFor.reason}`;
  } catch (error) {
    return messageOfError(error);
  }
}

/** Returns what reports what serves, each time when that has changed, and nothing before the first load has ended. */
function reportEngine(service: Service, supervisor: SupervisorChannel): () => void {
  let reported: boolean | null = null;
  let isLoaded = false;
  const reportIfChanged = (): void => {
    if (!isLoaded || reported === service.isComplete) return;
    reported = service.isComplete;
    supervisor.report({ kind: 'loaded', complete: reported });
  };
  const loaded = (): void => {
    isLoaded = true;
    reportIfChanged();
  };
  void service.ready.then(loaded, loaded);
  return reportIfChanged;
}

/** Without a successor (`stop` null) nobody serves meanwhile: what is open is answered, and idle connections end at once. */
async function leavePlace(
  service: Service,
  supervisor: SupervisorChannel,
  stop: Promise<string> | null,
): Promise<void> {
  await service.handOver();
  supervisor.report({ kind: 'retired', endsWithinMs: service.endsWithinMs(stop !== null) });
  if (stop !== null) await Promise.race([service.drain(), stop]);
}
