// `sluice serve --no-supervisor`, the server process: signals in, exit codes out, what a start shows, when it begins to serve, what it reports to its supervisor meanwhile,
// and how it leaves.
import { rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { BootstrapAccount } from '../account/users.js';
import { type Config, reachableUrl, readConfig } from '../config/config.js';
import { comeFirst, watchServingThread } from '../cores.js';
import type { Engine } from '../engine/engine.js';
import { createStandings, MEANINGS } from '../engine/folders.js';
import { messageOfError, todoOf } from '../error-text.js';
import { createLog, type EventLog, type Log } from '../log.js';
import { mainPath } from '../paths.js';
import { processAddon } from '../process-addon.js';
import { type StartedEngine, startEngine } from '../service/engine.js';
import { inheritedPlaces, openPlaces, type Places } from '../service/places.js';
import type { Service } from '../service/service.js';
import {
  LISTENER_DESCRIPTOR,
  openSupervisorChannel,
  type StartOrder,
  type SupervisorChannel,
} from '../supervisor/channel.js';
import { hasRootsRights, sayLastWords, setCoreDumps, watchTerminal } from '../supervisor/own-process.js';
import { EXIT_UNAVAILABLE } from '../supervisor/slot.js';
import { EXIT_CLEAN, EXIT_SIGNAL_BASE, EXIT_SOFTWARE } from './output.js';

/**
 * Resolves with the exit code once the service has stopped. The stop is asked for by a signal, or by the end of the IPC
 * channel: then the supervisor is gone, and nobody may keep the port.
 */
export async function runServer(env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const { log, flush } = createLog(config.logLevel);
  setCoreDumps(config.coreDumps, log);
  warnOfRights(log);
  comeFirst();
  sayLastWords(log, () => void flush().finally(() => process.exit(EXIT_SOFTWARE)));
  // The listeners come first: a stop that arrives during the start must be heard.
  const stop = stopRequested(log, flush);
  // To the whole process group, it is for the supervisor.
  process.on('SIGUSR2', () => undefined);
  log.info({ bootMillis: Math.round(performance.now()) }, 'starting');
  try {
    return await serveUntil(stop, config, log, flush);
  } finally {
    await flush();
  }
}

/** Time for calls that are on their way when all is stopped. */
const LAST_CALLS_MS = 500;

async function serveUntil(
  stop: Promise<string>,
  config: Config,
  log: EventLog,
  flush: () => Promise<void>,
): Promise<number> {
  const supervisor = await openSupervisorChannel(stop);
  if (supervisor === null) {
    log.info({ reason: await stop }, 'stopping');
    log.info('stopped');
    return EXIT_CLEAN;
  }
  const listener = supervisor.start.inheritsListener ? LISTENER_DESCRIPTOR : null;
  let places: Places | null = null;
  let service: Service;
  let parts: ServerParts;
  try {
    places = await placesOf(supervisor.start, config);
    parts = { config, log, supervisor, listener, places, stop };
    const prepared = await prepareService(parts);
    if (prepared === null) {
      places.release();
      return EXIT_CLEAN;
    }
    service = prepared;
    const port = await service.listen();
    supervisor.ready();
    if (config.processes === 1) watchServingThread();
    if (service.account !== null) {
      showFirstAccount(service.account, reachableUrl(config, port), config.dataDirectory, log);
    }
    const tell = (engine: Engine): void => tellOfSignatures(engine, config, reachableUrl(config, port), log);
    // Signatures that can't be loaded are in the log already.
    const loaded = service.ready.then(tell, () => undefined);
    // A third of the program was for the start alone.
    void loaded.then(() => processAddon()?.forgetProgram());
  } catch (error) {
    places?.release();
    const todo = todoOf(error);
    log.fatal({ err: error, ...(todo !== null && { todo }) }, 'the service could not start');
    return EXIT_UNAVAILABLE;
  }
  await serveUntilStopped(service, parts);
  places.release();
  if (service.lateThreads > 0 || (await areFilesAskedFor())) await endWithThreads(supervisor, flush);
  return EXIT_CLEAN;
}

async function placesOf({ places, sharePlace }: StartOrder, config: Config): Promise<Places> {
  if (places === undefined) return await openPlaces(config);
  return inheritedPlaces(places, LISTENER_DESCRIPTOR + 1, sharePlace ?? null);
}

/** Whether a thread of Node's is still at a file or the name of a host: where these hang, it doesn't come back. */
async function areFilesAskedFor(): Promise<boolean> {
  const deadlineMs = performance.now() + LAST_CALLS_MS;
  const isAsked = (): boolean => process.getActiveResourcesInfo().some((kind) => /^(FS|GetAddrInfo)Req/.test(kind));
  while (isAsked() && performance.now() < deadlineMs) await delay(LAST_CALLS_MS / 10);
  return isAsked();
}

/** A thread that is in native code keeps the process from exiting, in whatever way but this one. */
async function endWithThreads(supervisor: SupervisorChannel, flush: () => Promise<void>): Promise<void> {
  await flush();
  await supervisor.reportStopped();
  process.kill(process.pid, 'SIGKILL');
}

/**
 * Resolves with what asked for the stop. Alone, a second SIGTERM or SIGINT ends the process at once. Under the supervisor
 * it does not: a terminal's Ctrl-C or a service manager signals both of us, and the supervisor passes its own on; it is
 * the one that counts, and kills.
 */
function stopRequested(log: Log, flush: () => Promise<void>): Promise<string> {
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
    // Under the supervisor it is for the supervisor, as other stop signals are; it must not end us before we serve.
    const isTerminalGone = watchTerminal();
    process.on('SIGHUP', () => {
      if (!supervised && isTerminalGone()) resolve('the terminal is gone');
    });
    const onDisconnect = (): void => resolve('the supervisor is gone');
    process.on('disconnect', onDisconnect);
    if (supervised && !process.connected) onDisconnect();
  });
}

/** Under the supervisor, that one has said why they are left. */
function warnOfRights(log: Log): void {
  if (process.send !== undefined || !hasRootsRights()) return;
  log.warn(
    "the process that scans has root's capabilities: start it as another user, or with its supervisor, which takes them away",
  );
}

/** On a terminal as text; otherwise a line of the log, a warning where something is to be done. */
function tellOfSignatures(engine: Engine, config: Config, url: string, log: Log): void {
  const standing = createStandings(config.signatureFolders, Date.now)(engine);
  const meaning = MEANINGS[standing];
  const todo = standing === 'starter' || standing === 'old' ? updateCommand(config.dataDirectory) : null;
  if (process.stdout.isTTY) {
    const command = todo === null ? [] : ["This fetches ClamAV's; the service takes them over by itself:", `  ${todo}`];
    const lines = [
      '',
      `${engine.signatureCount} signatures serve, ${meaning}.`,
      ...command,
      `The dashboard: ${url}`,
      '',
      '',
    ];
    process.stdout.write(lines.join('\n'));
  } else if (todo !== null) {
    log.warn({ signatures: engine.signatureCount, standing, meaning, todo }, 'the signatures are not enough');
  }
}

/** As it can be run in the folder where the service was started. */
function updateCommand(dataDirectory: string): string {
  const fromHere = relative(process.cwd(), mainPath);
  const data = dataDirectory === resolve('./data') ? '' : `DATA_DIR=${quoted(dataDirectory)} `;
  return `${data}node ${quoted(fromHere.startsWith('..') ? mainPath : fromHere)} signatures update`;
}

const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

/** Below the data directory: what the first start shows, once and only here. */
const FIRST_ACCOUNT_FILE = 'first-account.txt';

/**
 * Shows it on the terminal. Where stdout is not a terminal, it ends in a log, which is kept and which others read. Then the account is
 * written to a file that only this user can read, and the log says where it is.
 */
function showFirstAccount(account: BootstrapAccount, baseUrl: string, dataDirectory: string, log: Log): void {
  const text = firstStartText(account, baseUrl);
  const isSecret = account.password !== null || account.apiKeyIsRandom;
  if (process.stdout.isTTY || !isSecret) {
    process.stdout.write(text);
    return;
  }
  const path = join(dataDirectory, FIRST_ACCOUNT_FILE);
  try {
    // The file of an earlier database names an account that is gone.
    rmSync(path, { force: true });
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    log.info({ path }, 'the first account was made; its key and a curl line are in this file: read it and remove it');
  } catch (error) {
    const reason = messageOfError(error);
    const todo = `sluice user password ${account.email}; sluice key create ${account.email}`;
    log.error({ path, reason, todo }, 'the first account was made, and what it has could not be written: make it anew');
  }
}

function firstStartText(account: BootstrapAccount, baseUrl: string): string {
  const rows = [`  e-mail    ${account.email}`];
  if (account.password !== null) rows.push(`  password  ${account.password}`);
  if (account.apiKeyIsRandom) rows.push(`  API key   ${account.apiKey}`);
  // A key that the operator set is not shown: it would stay in the history of the terminal.
  const key = account.apiKeyIsRandom ? `'X-API-KEY: ${account.apiKey}'` : '"X-API-KEY: $BOOTSTRAP_API_KEY"';
  return [
    '',
    `The first account was made, on the plan ${account.plan}. What it has is not shown again:`,
    ...rows,
    '',
    'A scan with it:',
    `  echo hello | curl -H ${key} -F 'file=@-;filename=hello.txt' ${baseUrl}/api/v1/scans`,
    '',
    '',
  ].join('\n');
}

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
  // It is to end instead, or the embedded database can be used.
  if (!(await Promise.race([supervisor.store.then(() => true), stop.then(() => false)]))) {
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
export async function serveUntilStopped(
  service: Service,
  { log, supervisor, places, stop }: ServerParts,
): Promise<void> {
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
  if (typeof end === 'string') places.refuse();
  else await leavePlace(service, supervisor, end.hasSuccessor ? stop : null);
  await service.stop();
  log.info('stopped');
}

async function startReportingEngine(parts: ServerParts): Promise<StartedEngine> {
  const { config, log, supervisor } = parts;
  let isFull = false;
  const engine = await startEngine(config, log, {
    inFlight: supervisor.start.inFlight,
    onHung(sha256) {
      log.error({ sha256 }, 'a scan thread does not come back');
      supervisor.report({ kind: 'replace', reason: 'a scan thread does not come back', sha256 });
    },
    onFolderGone: () =>
      supervisor.report({ kind: 'replace', reason: 'the temporary folder of the engine is gone', sha256: null }),
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
  reloadOnWish(engine, parts);
  return engine;
}

/** The supervisor's, or by a signal, for as long as it is not to end. The first load may have read the files before they changed. */
function reloadOnWish({ signatures }: StartedEngine, { supervisor, stop }: ServerParts): void {
  const isTerminalGone = watchTerminal();
  let isEnding = false;
  void Promise.race([stop, supervisor.retire]).then(() => {
    isEnding = true;
  });
  const reload = (): void => {
    if (!isEnding) void signatures.reload();
  };
  supervisor.onReload(reload);
  process.on('SIGHUP', () => {
    if (!isTerminalGone()) reload();
  });
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
