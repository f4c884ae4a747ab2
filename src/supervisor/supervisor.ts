// The supervisor: keeps server processes running, forwards signals to them, and ends with their exit code.
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { type DoorShares, SHARES } from '../door.js';
import type { Log } from '../log.js';
import { processAddon } from '../process-addon.js';
import type { Report } from './channel.js';
import type { KeptStore, Suspects, Updater } from './kept.js';
import { watchTerminal } from './own-process.js';
import {
  type End,
  fieldsOf,
  isContentsDoing,
  type ServerProcess,
  type ServerProcessOptions,
  startServerProcess,
} from './server-child.js';
import { type BackOff, type Beginning, createSlot, type Slot } from './slot.js';

/** What each server is started with, and what they share. */
export interface SuperviseOptions
  extends Pick<ServerProcessOptions, 'command' | 'arguments' | 'environment' | 'startMs' | 'log'> {
  /** Server processes on the one listening socket; default 1. */
  readonly processes?: number;
  /** The listening socket that all of them inherit; null: each opens its own. */
  readonly listener?: number | null;
  /** More listening sockets that they inherit, by what they listen for; default: none. */
  readonly places?: ReadonlyMap<string, number>;
  /** How the processes share out what comes; null: they do not. */
  readonly shares?: DoorShares | null;
  /** The embedded database; null: there is none. */
  readonly store?: Pick<KeptStore, 'socketDirectory' | 'started'> | null;
  /** Called once, when a stop begins. */
  readonly onStop?: () => void;
  readonly suspects?: Suspects;
  /** Fetches newer signatures, with the rights that this process has; null: nobody does. */
  readonly update?: Pick<Updater, 'start' | 'view' | 'onChange'> | null;
  readonly backOff?: BackOff;
  /** How many processes the kernel has killed for memory, null where it doesn't say; default: as /proc has it. */
  readonly memoryKills?: () => number | null;
  /** A stop signal that comes so soon after the first one is the same request, by another way. */
  readonly sameRequestMs?: number;
}

const DEFAULT_BACK_OFF: BackOff = { firstMs: 100, limitMs: 30_000, servedLimitMs: 100, healthyMs: 60_000 };
/** npm passes on what a terminal or a service manager has sent to all of us: milliseconds later. People need longer. */
const DEFAULT_SAME_REQUEST_MS = 250;
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT'];

/**
 * Resolves with the exit code of the last server process (128 + n when signal n ended it), when it is not to be restarted.
 * The children share our process group and get a terminal's Ctrl-C twice, from the terminal and from here. So they must take
 * every stop signal after the first for the same request. The second one that arrives here is the one that kills them.
 */
export async function supervise(options: SuperviseOptions): Promise<number> {
  const { log, backOff = DEFAULT_BACK_OFF, sameRequestMs = DEFAULT_SAME_REQUEST_MS } = options;
  const { memoryKills = killsOfKernel } = options;
  const stop = new AbortController();
  stop.signal.addEventListener('abort', () => options.onStop?.(), { once: true });
  const servers = createServers(options);
  const service = { everReady: false };
  const slots = Array.from({ length: options.processes ?? 1 }, () =>
    createSlot({ start: servers.start, service, backOff, memoryKills, log, stop: stop.signal }),
  );
  const forward = (signal: NodeJS.Signals): void => {
    for (const slot of slots) slot.forward(signal);
  };

  /** The servers load their signatures meanwhile. Rejects when there will be no database for them, once they have ended. */
  async function awaitStore(): Promise<void> {
    try {
      await options.store?.started;
      servers.tellStore();
    } catch (error) {
      stop.abort();
      forward('SIGTERM');
      await servers.ended();
      throw error;
    }
  }

  const endSignals = listenToSignals({ slots, stop, forward, log, sameRequestMs });
  try {
    const [end] = await Promise.all([runAll(slots, stop, forward), awaitStore()]);
    if (end.exitCode !== 0) log.error(fieldsOf(end), 'server ended');
    return end.exitCode;
  } finally {
    endSignals();
  }
}

/** All server processes of all slots: what each gets at its start, and the orders that all of them get later. */
function createServers(options: SuperviseOptions) {
  const { listener = null, shares = null, store = null, suspects, update = null } = options;
  const places = new Map(options.places);
  if (shares !== null) places.set(SHARES, shares.descriptor);
  const running = new Set<ServerProcess>();
  let hasStore = store === null;

  update?.onChange((view) => {
    for (const server of running) server.tell({ kind: 'update', view });
  });

  function start(beginning: Beginning, onReport: (report: Report, server: ServerProcess) => void): ServerProcess {
    const inFlight = suspects?.open() ?? null;
    const sharePlace = shares?.take() ?? null;
    const given = {
      inheritsListener: listener !== null,
      places: [...places.keys()],
      ...(sharePlace === null ? {} : { sharePlace }),
      socketDirectory: store?.socketDirectory ?? null,
      awaitsStore: !hasStore,
      refused: suspects?.refused() ?? [],
    };
    const server = startServerProcess({
      ...options,
      listener,
      places,
      inFlight,
      start: { kind: 'start', ...beginning, ...given },
      onReport(report, from) {
        if (report.kind === 'replace' && report.sha256 !== null && suspects?.hung(report.sha256)) tellRefused();
        if (report.kind === 'allow' && suspects?.allow(report.sha256)) tellRefused();
        if (report.kind === 'update') update?.start();
        onReport(report, from);
      },
    });
    running.add(server);
    // What is left to do takes a tenth of the program.
    void server.heard('loaded').then((isLoaded) => isLoaded && processAddon()?.forgetProgram());
    if (update !== null) server.tell({ kind: 'update', view: update.view() });
    void server.ended.then((end) => {
      running.delete(server);
      if (sharePlace !== null) shares?.free(sharePlace);
      if (inFlight !== null && suspects?.close(inFlight, isContentsDoing(end))) tellRefused();
    });
    return server;
  }

  function tellRefused(): void {
    const refused = suspects?.refused() ?? [];
    for (const server of running) server.tell({ kind: 'refuse', refused });
  }

  return {
    start,
    tellStore(): void {
      hasStore = true;
      for (const server of running) server.tell({ kind: 'store' });
    },
    async ended(): Promise<void> {
      await Promise.all([...running].map((server) => server.ended));
    },
  };
}

interface SignalOptions {
  readonly slots: readonly Slot[];
  readonly stop: AbortController;
  readonly forward: (signal: NodeJS.Signals) => void;
  readonly log: Log;
  readonly sameRequestMs: number;
}

/** Returns what ends the listening. */
function listenToSignals({ slots, stop, forward, log, sameRequestMs }: SignalOptions): () => void {
  const isTerminalGone = watchTerminal();
  let askedAtMs = 0;

  /** A shell may pass on what the terminal has sent already: however often it comes, it is one request. */
  function onHangUp(): void {
    if (isTerminalGone()) {
      if (!stop.signal.aborted) onStop('SIGTERM', 'the terminal is gone');
      return;
    }
    for (const slot of slots) slot.tell({ kind: 'reload' });
  }
  function onStop(signal: NodeJS.Signals, reason: string): void {
    if (stop.signal.aborted) {
      if (performance.now() - askedAtMs < sameRequestMs) return;
      log.warn({ signal }, 'second stop signal: killing the server');
      forward('SIGKILL');
      return;
    }
    askedAtMs = performance.now();
    log.info({ reason }, 'stopping');
    stop.abort();
    forward(signal);
  }
  const onSignal = (signal: NodeJS.Signals): void => onStop(signal, signal);
  const onUpgrade = createUpgrades({ slots, stop, log, sameRequestMs });

  for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  process.on('SIGHUP', onHangUp);
  process.on('SIGUSR2', onUpgrade);
  return () => {
    for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
    process.off('SIGHUP', onHangUp);
    process.off('SIGUSR2', onUpgrade);
  };
}

/** The others come when the first one is there: what can't start at all says so once. */
async function runAll(
  slots: readonly Slot[],
  stop: AbortController,
  forward: (signal: NodeJS.Signals) => void,
): Promise<End> {
  const [first, ...others] = slots;
  if (first === undefined) throw new Error('There must be a process');
  const firstEnd = first.run();
  await Promise.race([first.firstReady, firstEnd]);
  const ends = [firstEnd, ...(stop.signal.aborted ? [] : others.map((slot) => slot.run()))];
  const end = await Promise.race(ends);
  if (!stop.signal.aborted) {
    stop.abort();
    forward('SIGTERM');
  }
  await Promise.all(slots.map((slot) => slot.empty()));
  return end;
}

/** Returns what replaces all servers, one after the other: two loads at a time would need the memory of two more processes. Who asks meanwhile may have installed something else. */
function createUpgrades({ slots, stop, log, sameRequestMs }: Omit<SignalOptions, 'forward'>): () => void {
  let isRunning = false;
  let isAskedAgain = false;
  let askedAtMs = 0;

  async function upgrade(): Promise<void> {
    isRunning = true;
    do {
      isAskedAgain = false;
      for (const slot of slots) await slot.upgrade('SIGUSR2');
    } while (isAskedAgain && !stop.signal.aborted);
    isRunning = false;
  }

  return () => {
    const isSameRequest = performance.now() - askedAtMs < sameRequestMs;
    askedAtMs = performance.now();
    if (!isRunning) return void upgrade();
    if (isSameRequest) return;
    isAskedAgain = true;
    log.info('a replacement is under way: another one follows');
  };
}

/** Of the whole machine since it began (proc_vmstat(5)), also those of a container's bound; null: the kernel doesn't say. */
function killsOfKernel(): number | null {
  try {
    const count = /^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'utf8'))?.[1];
    return count === undefined ? null : Number(count);
  } catch {
    return null;
  }
}
