// One place for a server process: kept filled, with back-off after crashes, and its process replaced without a gap.
import type { Log } from './log.js';
import { type BackOff, createDelays } from './supervisor-back-off.js';
import type { Report } from './supervisor-messages.js';
import { READY_MESSAGE } from './supervisor-messages.js';
import { type End, EXIT_OS_ERROR, fieldsOf, type ServerProcess } from './supervisor-server.js';

/** sysexits.h EX_UNAVAILABLE: the server can't start here (port in use, data directory locked). Final before the first ready. */
export const EXIT_UNAVAILABLE = 69;
/** sysexits.h EX_CONFIG: the configuration is wrong. Always final: only an operator can change that. */
export const EXIT_CONFIG = 78;

export interface SlotOptions {
  start(takesOver: boolean, onReport: (report: Report, server: ServerProcess) => void): ServerProcess;
  readonly backOff: BackOff;
  readonly log: Log;
  readonly stop: AbortSignal;
}

export interface Slot {
  /** Keeps a process running; resolves with how the last one ended, when it is not to be restarted. */
  run(): Promise<End>;
  /** Starts another process, which takes over when it can serve. Resolves when it has, or has failed to. */
  replace(reason: string): Promise<void>;
  /** Passes the signal on to every process that runs. */
  forward(signal: NodeJS.Signals): void;
  /** Resolves when the first process serves, or has ended. */
  readonly firstReady: Promise<void>;
  /** Resolves when no process of the slot runs any more. */
  empty(): Promise<void>;
}

/** A new process that isn't ready within this is given up: the largest databases take a minute. */
const PREPARE_MS = 600_000;
/** A process that doesn't hand over within this is killed: its main thread hangs. */
const HANDOVER_MS = 10_000;
/** A replaced process ends within this: its drain (server-process.ts) and the closing of its stores. */
const RETIRE_MS = 50_000;

export function createSlot({ start, backOff, log, stop }: SlotOptions): Slot {
  const running = new Set<ServerProcess>();
  let main: ServerProcess | null = null;
  let next: ServerProcess | null = null;
  /** Ends because it asked to, to be followed by another one. */
  let restarting: ServerProcess | null = null;
  let wasReady: () => void = () => undefined;
  const firstReady = new Promise<void>((resolve) => {
    wasReady = resolve;
  });

  function launch(takesOver: boolean): ServerProcess {
    const server = start(takesOver, onReport);
    running.add(server);
    void server.ended.then(() => running.delete(server));
    void server.heard(READY_MESSAGE).then(wasReady);
    return server;
  }

  function onReport(report: Report, server: ServerProcess): void {
    // One that is being replaced has nothing more to ask for.
    if (server !== main) return;
    if (report.kind === 'replace') void replace(report.reason);
    if (report.kind === 'restart') restart(report.reason, server);
  }

  function restart(reason: string, server: ServerProcess): void {
    if (restarting !== null || next !== null || stop.aborted) return;
    log.warn({ reason }, 'restarting the server process');
    restarting = server;
    retire(server);
  }

  async function replace(reason: string): Promise<void> {
    const old = main;
    if (old === null || next !== null || restarting !== null || stop.aborted) return;
    log.info({ reason }, 'replacing the server process');
    const fresh = launch(true);
    next = fresh;
    // What never gets ready keeps nobody from asking again.
    const timer = setTimeout(() => fresh.kill('SIGKILL'), PREPARE_MS);
    const isPrepared = await fresh.heard('prepared');
    clearTimeout(timer);
    // The old one has died meanwhile, and the new one is in its place already.
    if (next !== fresh) return;
    if (!isPrepared || stop.aborted) {
      next = null;
      if (!stop.aborted) log.error(fieldsOf(await fresh.ended), 'the new process failed, the old one goes on');
      return;
    }
    retire(old);
    if (!(await handsOver(old))) {
      log.error('the old process did not hand over: killing it');
      old.kill('SIGKILL');
      await old.ended;
    }
    if (next !== fresh) return;
    main = fresh;
    next = null;
    fresh.tell({ kind: 'serve' });
    void old.ended.then(() => fresh.tell({ kind: 'alone' }));
    await fresh.heard(READY_MESSAGE);
    log.info({ reason }, 'replaced');
  }

  function retire(server: ServerProcess): void {
    server.tell({ kind: 'retire' });
    const timer = setTimeout(() => server.kill('SIGKILL'), RETIRE_MS);
    void server.ended.then(() => clearTimeout(timer));
  }

  async function handsOver(server: ServerProcess): Promise<boolean> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), HANDOVER_MS);
    const heard = await Promise.race([server.heard('retired'), pause(HANDOVER_MS, late.signal).then(() => false)]);
    clearTimeout(timer);
    late.abort();
    return heard;
  }

  /** Puts the process that is getting ready in the place of the one that has ended. */
  function promote(): boolean {
    if (next === null) return false;
    main = next;
    next = null;
    main.tell({ kind: 'serve' });
    main.tell({ kind: 'alone' });
    return true;
  }

  async function run(): Promise<End> {
    const delayAfter = createDelays(backOff);
    let everReady = false;
    for (;;) {
      main ??= launch(false);
      const server = main;
      const end = await server.ended;
      everReady ||= end.readyForMs !== null;
      // It was replaced, and another one is there.
      if (main !== server) continue;
      main = null;
      if (stop.aborted) return end;
      const lackedMemory = restarting === server;
      restarting = null;
      if (!lackedMemory) {
        if (promote()) continue;
        if (isOver(end, everReady)) return end;
      }
      const delayMs = delayAfter({ readyForMs: end.readyForMs, lackedMemory });
      if (lackedMemory) log.warn({ delayMs }, 'starting again for want of memory');
      else log.error({ ...fieldsOf(end), delayMs }, 'server ended, restarting');
      if (delayMs > 0) await pause(delayMs, stop);
      if (stop.aborted) return end;
    }
  }

  return {
    run,
    replace,
    forward(signal) {
      for (const server of running) server.kill(signal);
    },
    firstReady,
    async empty() {
      while (running.size > 0) await Promise.all([...running].map((server) => server.ended));
    },
  };
}

/** Before it was ever ready, a server that says that it can't start here would say so for ever. */
function isOver({ crashed, exitCode }: End, everReady: boolean): boolean {
  if (!crashed || exitCode === EXIT_CONFIG) return true;
  return !everReady && (exitCode === EXIT_UNAVAILABLE || exitCode === EXIT_OS_ERROR);
}

/** Resolves after the delay, or as soon as the signal aborts. */
function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, delayMs);
    signal.addEventListener('abort', done);
  });
}
