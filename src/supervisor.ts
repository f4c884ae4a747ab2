// The supervisor: keeps server processes running, forwards signals to them, and ends with their exit code.
import { performance } from 'node:perf_hooks';
import type { Log } from './log.js';
import type { BackOff } from './supervisor-back-off.js';
import type { Report } from './supervisor-messages.js';
import { type End, fieldsOf, isContentsDoing, type ServerProcess, startServerProcess } from './supervisor-server.js';
import { type Beginning, createSlot, type Slot } from './supervisor-slot.js';

export interface SuperviseOptions {
  readonly command: string;
  readonly arguments: readonly string[];
  readonly log: Log;
  /** Server processes on the one listening socket; default 1. */
  readonly processes?: number;
  /** The listening socket that all of them inherit; null: each opens its own. */
  readonly listener?: number | null;
  /** Of the embedded database. */
  readonly socketDirectory?: string | null;
  readonly suspects?: Suspects;
  readonly backOff?: BackOff;
  /** A stop signal that comes so soon after the first one is the same wish, by another way. */
  readonly sameWishMs?: number;
}

/** Which contents were being scanned when a process crashed, as far as the supervisor has to do with it. */
export interface Suspects {
  /** A file for the digests of what a process scans. */
  open(): string;
  /** The process is gone; `crashed`: by what content can do. Returns true when there is more to refuse than before. */
  close(path: string, crashed: boolean): boolean;
  /** A thread did not come back from this content. Returns true when there is more to refuse than before. */
  hung(sha256: string): boolean;
  refused(): string[];
}

const DEFAULT_BACK_OFF: BackOff = { firstMs: 100, limitMs: 30_000, servedLimitMs: 100, healthyMs: 60_000 };
/** npm passes on what a terminal or a service manager has sent to all of us: milliseconds later. People need longer. */
const DEFAULT_SAME_WISH_MS = 250;
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT'];

/**
 * Resolves with the exit code of the last server process (128 + n when signal n ended it), when it is not to be restarted.
 * The children share our process group and get a terminal's Ctrl-C twice, from the terminal and from here: they must take
 * every stop signal after the first for the same wish. The second one that arrives here is the one that kills them.
 */
export async function supervise(options: SuperviseOptions): Promise<number> {
  const { log, backOff = DEFAULT_BACK_OFF, sameWishMs = DEFAULT_SAME_WISH_MS } = options;
  const stop = new AbortController();
  const servers = new Set<ServerProcess>();
  const slots: Slot[] = [];
  let askedAtMs = 0;

  for (let place = 0; place < (options.processes ?? 1); place += 1) {
    slots.push(createSlot({ start, backOff, log, stop: stop.signal }));
  }

  function start(beginning: Beginning, onReport: (report: Report, server: ServerProcess) => void): ServerProcess {
    const { listener = null, socketDirectory = null, suspects } = options;
    const inFlightPath = suspects?.open() ?? null;
    const refused = suspects?.refused() ?? [];
    const inheritsListener = listener !== null;
    const server = startServerProcess({
      ...options,
      listener,
      start: { kind: 'start', ...beginning, inheritsListener, socketDirectory, inFlightPath, refused },
      onReport(report, from) {
        if (report.kind === 'replace' && report.sha256 !== null && suspects?.hung(report.sha256)) tellRefused();
        onReport(report, from);
      },
    });
    servers.add(server);
    void server.ended.then((end) => {
      servers.delete(server);
      if (inFlightPath !== null && suspects?.close(inFlightPath, isContentsDoing(end))) tellRefused();
    });
    return server;
  }

  function tellRefused(): void {
    const refused = options.suspects?.refused() ?? [];
    for (const server of servers) server.tell({ kind: 'refuse', refused });
  }

  const forward = (signal: NodeJS.Signals): void => {
    for (const slot of slots) slot.forward(signal);
  };
  const onStop = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) {
      if (performance.now() - askedAtMs < sameWishMs) return;
      log.warn({ signal }, 'second stop signal: killing the server');
      forward('SIGKILL');
      return;
    }
    askedAtMs = performance.now();
    log.info({ signal }, 'stopping');
    stop.abort();
    forward(signal);
  };
  const onUpgrade = (): void => {
    void replaceAll(slots, 'SIGUSR2');
  };
  for (const signal of STOP_SIGNALS) process.on(signal, onStop);
  process.on('SIGHUP', forward);
  process.on('SIGUSR2', onUpgrade);

  /** The others come when the first one is there: what can't start at all says so once. */
  async function runAll(): Promise<End> {
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

  try {
    const end = await runAll();
    if (end.exitCode !== 0) log.error(fieldsOf(end), 'server ended');
    return end.exitCode;
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, onStop);
    process.off('SIGHUP', forward);
    process.off('SIGUSR2', onUpgrade);
  }
}

/** One after the other: two loads at a time would need the memory of two more processes. */
async function replaceAll(slots: readonly Slot[], reason: string): Promise<void> {
  for (const slot of slots) await slot.replace(reason);
}
