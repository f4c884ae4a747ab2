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

/** How a process is to begin. */
export interface Beginning {
  /** Another one is still there: prepare everything and wait for the order to serve. */
  readonly takesOver: boolean;
  /** Whether a stand-in engine may take over. */
  readonly mayStandIn: boolean;
}

export interface SlotOptions {
  start(beginning: Beginning, onReport: (report: Report, server: ServerProcess) => void): ServerProcess;
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

export function createSlot({ start, backOff, log, stop }: SlotOptions): Slot {
  const running = new Set<ServerProcess>();
  let main: ServerProcess | null = null;
  let next: ServerProcess | null = null;
  /** Ends because it asked to, to be followed by another one. */
  let restarting: ServerProcess | null = null;
  let isReplacing = false;
  let onMainChanged: () => void = () => undefined;
  let onPromoted: () => void = () => undefined;
  let wasReady: () => void = () => undefined;
  const firstReady = new Promise<void>((resolve) => {
    wasReady = resolve;
  });

  function launch(beginning: Beginning): ServerProcess {
    const server = start(beginning, onReport);
    running.add(server);
    void server.ended.then(() => running.delete(server));
    void server.heard(READY_MESSAGE).then(wasReady);
    return server;
  }

  /** Starts one that serves as soon as it can, whether or not a process that was replaced still answers what it had. */
  function fill(): ServerProcess {
    const takesOver = running.size > 0;
    const server = launch({ takesOver, mayStandIn: true });
    if (takesOver) serve(server);
    return server;
  }

  function serve(server: ServerProcess): void {
    server.tell({ kind: 'serve' });
    void endOfOthers(server).then(() => server.tell({ kind: 'alone' }));
  }

  async function endOfOthers(server: ServerProcess): Promise<void> {
    await Promise.all([...running].filter((other) => other !== server).map((other) => other.ended));
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
    server.tell({ kind: 'retire', hasSuccessor: false });
  }

  async function replace(reason: string): Promise<void> {
    if (isReplacing || main === null || restarting !== null || stop.aborted) return;
    isReplacing = true;
    try {
      await replaceOld(main, reason);
    } finally {
      isReplacing = false;
    }
  }

  async function replaceOld(old: ServerProcess, reason: string): Promise<void> {
    // There is room for two, and the one before may still answer a slow upload.
    if (running.size > 1)
      log.info({ reason }, 'the process that was replaced before is still there: waiting for its end');
    await endOfOthers(old);
    if (main !== old || restarting !== null || stop.aborted) return;
    log.info({ reason }, 'replacing the server process');
    const fresh = launch({ takesOver: true, mayStandIn: old.complete === false });
    next = fresh;
    // What never gets ready keeps nobody from asking again.
    const timer = setTimeout(() => fresh.kill('SIGKILL'), PREPARE_MS);
    const promoted = new Promise<boolean>((resolve) => {
      onPromoted = () => resolve(false);
    });
    const isPrepared = await Promise.race([fresh.heard('prepared'), promoted]);
    clearTimeout(timer);
    // The old one has died meanwhile, and the new one is in its place already.
    if (next !== fresh) return;
    if (!isPrepared || stop.aborted) {
      next = null;
      if (!stop.aborted) log.error(fieldsOf(await fresh.ended), 'the new process failed, the old one goes on');
      return;
    }
    old.tell({ kind: 'retire' });
    // If it ends instead, by itself or killed for it, that is dealt with where ends are: the new one is promoted.
    if (!(await old.heard('retired')) || next !== fresh) return;
    main = fresh;
    next = null;
    serve(fresh);
    onMainChanged();
    if (await fresh.heard(READY_MESSAGE)) log.info({ reason }, 'replaced');
  }

  /** Puts the process that is getting ready in the place of the one that has ended. */
  function promote(end: End): boolean {
    if (next === null) return false;
    log.error(fieldsOf(end), 'server ended, the one that was to replace it serves');
    main = next;
    next = null;
    serve(main);
    onPromoted();
    return true;
  }

  async function run(): Promise<End> {
    const delayAfter = createDelays(backOff);
    let everReady = false;
    for (;;) {
      main ??= fill();
      const server = main;
      const changed = new Promise<null>((resolve) => {
        onMainChanged = () => resolve(null);
      });
      const end = await Promise.race([server.ended, changed]);
      everReady ||= end === null || end.wasReady;
      // It was replaced, and another one is there.
      if (end === null || main !== server) continue;
      main = null;
      if (stop.aborted) return end;
      const isWish = restarting === server;
      restarting = null;
      if (!isWish) {
        if (promote(end)) continue;
        if (isOver(end, everReady)) return end;
      }
      // A SIGKILL that is not ours is the kernel's, in search of memory: another start would soon be killed as well.
      const lackedMemory = isWish || (end.signal === 'SIGKILL' && end.exitCode !== 0);
      const delayMs = delayAfter({ servedForMs: end.servedForMs, lackedMemory });
      if (isWish) log.warn({ delayMs }, 'starting again for want of memory');
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
