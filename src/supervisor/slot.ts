// One place for a server process: kept filled, with back-off after crashes, and its process replaced without a gap.
import type { Log } from '../log.js';
import { createClock, later, pause } from '../waiting/within.js';
import { type Order, READY_MESSAGE, type Report, type StartOrder } from './channel.js';
import { type End, EXIT_OS_ERROR, fieldsOf, type ServerProcess } from './server-child.js';

/** sysexits.h EX_UNAVAILABLE: the server can't start here (port in use, data directory locked). Final before the first ready. */
export const EXIT_UNAVAILABLE = 69;
/** sysexits.h EX_CONFIG: the configuration is wrong. Always final: only an operator can change that. */
export const EXIT_CONFIG = 78;

/** What the slots of one supervisor have in common. */
export interface SlotsState {
  /** One of its processes has served: what keeps the next one from starting may be over soon. */
  everReady: boolean;
}

export interface SlotOptions {
  readonly start: StartProcess;
  readonly service: SlotsState;
  readonly backOff: BackOff;
  /** How many processes the kernel has killed for memory; null: it doesn't say. */
  readonly memoryKills: () => number | null;
  readonly log: Log;
  readonly stop: AbortSignal;
}

export type Slot = ReturnType<typeof createSlot>;

export function createSlot({ start, service, backOff, memoryKills, log, stop }: SlotOptions) {
  const processes = createProcesses(start, onReport, service);
  const main = createMain();
  const killOf = createMemoryWatch(memoryKills);
  const replacement = createReplacement({ processes, isWanted, onReplaced: main.become, killOf, log, stop });
  const delayAfter = createRestarts({ backOff, killOf, log });
  /** It ends because it has asked for that; another one follows. */
  let restarting: ServerProcess | null = null;

  function isWanted(old: ServerProcess): boolean {
    return main.process === old && restarting === null && !stop.aborted;
  }

  function onReport(report: Report, server: ServerProcess): void {
    // One that is being replaced has nothing more to ask for.
    if (server !== main.process) return;
    if (report.kind === 'replace') void replace(report.reason);
    if (report.kind === 'restart') restart(report.reason, server);
  }

  function restart(reason: string, server: ServerProcess): void {
    if (restarting !== null || replacement.isPreparing || stop.aborted) return;
    log.warn({ reason }, 'restarting the server process');
    restarting = server;
    server.tell({ kind: 'retire', hasSuccessor: false });
  }

  async function replace(reason: string): Promise<void> {
    const old = main.process;
    if (old !== null && isWanted(old)) await replacement.replace(old, reason);
  }

  /** What is to happen after an end: whether another process is to be started. It may be there already. */
  async function goOnAfter(end: End): Promise<boolean> {
    const isRequested = restarting !== null;
    restarting = null;
    if (stop.aborted) return false;
    if (!isRequested) {
      if (main.become(replacement.promote(end)) !== null) return true;
      if (isOver(end, service.everReady)) return false;
    }
    const delayMs = delayAfter(end, isRequested);
    if (delayMs > 0) await pause(delayMs, stop);
    return !stop.aborted;
  }

  return {
    /** Keeps a process running; resolves with how the last one ended, when it is not to be restarted. */
    async run(): Promise<End> {
      for (;;) {
        const end = await main.endOf(main.process ?? main.become(processes.fill()));
        if (end === null || end.wasReady) service.everReady = true;
        if (end !== null && !(await goOnAfter(end))) return end;
      }
    },
    /**
     * Starts another process, which takes over when it can serve. Resolves when it has, or has failed to. A replacement that is under way already may have
     * begun with what was installed before: another one follows it.
     */
    async upgrade(reason: string): Promise<void> {
      await replacement.idle();
      await replace(reason);
    },
    forward: processes.forward,
    tell: processes.tell,
    firstReady: processes.firstReady,
    empty: processes.empty,
  };
}

/**
 * Called after each end of a process; says so, and returns the wait before the next start, in milliseconds. `isRequested`: it has ended because it lacked
 * memory.
 */
function createRestarts({ backOff, killOf, log }: Pick<SlotOptions, 'backOff' | 'log'> & { killOf: KillOf }) {
  const { firstMs, limitMs, servedLimitMs, healthyMs } = backOff;
  let failures = 0;

  return (end: End, isRequested: boolean): number => {
    const { servedForMs } = end;
    const kill = killOf(end);
    // There was no room for it: it would soon be so again.
    const lackedMemory = isRequested || kill !== 'of somebody';
    if (servedForMs !== null && servedForMs >= healthyMs) failures = 0;
    const most = servedForMs === null || lackedMemory ? limitMs : Math.min(servedLimitMs, limitMs);
    const delayMs = failures === 0 ? 0 : Math.min(most, firstMs * 2 ** (failures - 1));
    failures += 1;
    const why = kill === 'of the kernel' ? { ...MEMORY_RAN_OUT, todo: MORE_MEMORY } : {};
    if (isRequested) log.warn({ delayMs }, 'starting again after a lack of memory');
    else log.error({ ...fieldsOf(end), ...why, delayMs }, 'server ended, restarting');
    return delayMs;
  };
}

/** The process that serves, or is to serve first. */
function createMain() {
  let process: ServerProcess | null = null;
  let onChanged: () => void = () => undefined;

  function become<Next extends ServerProcess | null>(next: Next): Next {
    process = next;
    onChanged();
    return next;
  }

  return {
    get process(): ServerProcess | null {
      return process;
    },
    become,
    /** How the process ended; null: another one has taken its place. */
    async endOf(server: ServerProcess): Promise<End | null> {
      const changed = new Promise<null>((resolve) => {
        onChanged = () => resolve(null);
      });
      const end = await Promise.race([server.ended, changed]);
      if (process !== server) return null;
      process = null;
      return end;
    },
  };
}

/** For the log. */
const MEMORY_RAN_OUT = { reason: 'the kernel killed it, since memory ran out' };
const MORE_MEMORY =
  'give the machine or container more memory, or the service less: UPLOAD_MEMORY_MB, DOWNLOAD_MEMORY_MB, SCAN_THREADS_MOST, SCAN_TEMP_MB';
const MEMORY_FOR_TWO = 'both processes are in memory for that time: give it more, or restart the service instead';
const AGAIN =
  'its own lines before this one say why. When that is mended, ask once more (SIGUSR2, systemctl reload sluice), or restart the service';

/** Whose SIGKILL an end comes from: after one of the kernel, which needs memory, another start would soon be killed as well. */
type Kill = 'of the kernel' | 'of the kernel, perhaps' | 'of somebody';

type KillOf = (end: End) => Kill;

function createMemoryWatch(memoryKills: () => number | null): KillOf {
  let before = memoryKills();
  return ({ signal, exitCode }) => {
    const now = memoryKills();
    const wasBefore = before;
    before = now;
    if (signal !== 'SIGKILL' || exitCode === 0 || (now !== null && now === wasBefore)) return 'of somebody';
    return now === null ? 'of the kernel, perhaps' : 'of the kernel';
  };
}

/** A server that was never ready and can't start here will not start here later either. */
function isOver({ crashed, exitCode }: End, everReady: boolean): boolean {
  if (!crashed || exitCode === EXIT_CONFIG) return true;
  return !everReady && (exitCode === EXIT_UNAVAILABLE || exitCode === EXIT_OS_ERROR);
}

export interface BackOff {
  /** Before the second restart; the first comes at once, and each after the second waits twice as long as the one before it. */
  readonly firstMs: number;
  /** The longest wait after a process that never served, or that had no memory left: each start reads a large database. */
  readonly limitMs: number;
  /** The most that is waited after a crash of one that served: content did it, or somebody killed it, and waiting would only keep all others out. */
  readonly servedLimitMs: number;
  /** A server that has served for so long makes the next restart the first one again. */
  readonly healthyMs: number;
}

/** `takesOver`: another one is still there. */
export type Beginning = Required<Pick<StartOrder, 'takesOver' | 'mayStandIn'>>;

export type StartProcess = (
  beginning: Beginning,
  onReport: (report: Report, server: ServerProcess) => void,
) => ServerProcess;

type Processes = ReturnType<typeof createProcesses>;

function createProcesses(
  start: StartProcess,
  onReport: (report: Report, server: ServerProcess) => void,
  service: SlotsState,
) {
  const running = new Set<ServerProcess>();
  const firstReady = later();

  function launch(beginning: Beginning): ServerProcess {
    const server = start(beginning, onReport);
    running.add(server);
    void server.ended.then(() => running.delete(server));
    void server.heard(READY_MESSAGE).then((isReady) => {
      service.everReady ||= isReady;
      firstReady.resolve();
    });
    return server;
  }

  async function endOfOthers(server: ServerProcess): Promise<void> {
    await Promise.all([...running].filter((other) => other !== server).map((other) => other.ended));
  }

  function serve(server: ServerProcess): void {
    server.tell({ kind: 'serve' });
    void endOfOthers(server).then(() => server.tell({ kind: 'alone' }));
  }

  return {
    get size(): number {
      return running.size;
    },
    launch,
    /** Starts one that serves as soon as it can, whether or not a process that was replaced still answers what it had. */
    fill(): ServerProcess {
      const takesOver = running.size > 0;
      const server = launch({ takesOver, mayStandIn: true });
      if (takesOver) serve(server);
      return server;
    },
    /** Orders a process that takes over to serve, and says when it is alone. */
    serve,
    endOfOthers,
    /** A signal that ends them. */
    forward(signal: NodeJS.Signals): void {
      for (const server of running) server.kill(signal);
    },
    tell(order: Order): void {
      for (const server of running) server.tell(order);
    },
    /** Resolves when the first process serves, or has ended. */
    firstReady: firstReady.promise,
    /** Resolves when none runs any more. */
    async empty(): Promise<void> {
      while (running.size > 0) await Promise.all([...running].map((server) => server.ended));
    },
  };
}

/** A new process that isn't ready within this is given up: the largest databases take a minute. */
const PREPARE_MS = 600_000;

interface ReplacementOptions {
  readonly processes: Processes;
  /** Whether the old process still is the one to be replaced. */
  readonly isWanted: (old: ServerProcess) => boolean;
  /** The old one has handed over. */
  readonly onReplaced: (fresh: ServerProcess) => void;
  readonly killOf: KillOf;
  readonly log: Log;
  readonly stop: AbortSignal;
}

function giveUp(fresh: ServerProcess, log: Log): void {
  log.error('the new process is not ready after ten minutes: killing it');
  fresh.kill('SIGKILL');
}

function tellOfFailure(end: End, killOf: KillOf, log: Log): void {
  const why = killOf(end) === 'of the kernel' ? { ...MEMORY_RAN_OUT, todo: MEMORY_FOR_TWO } : { todo: AGAIN };
  log.error({ ...fieldsOf(end), ...why }, 'the new process failed, the old one goes on');
}

function createReplacement({ processes, isWanted, onReplaced, killOf, log, stop }: ReplacementOptions) {
  let next: ServerProcess | null = null;
  let running: Promise<void> | null = null;
  let onPromoted: () => void = () => undefined;

  /** False: it won't get ready, or it serves already. */
  async function prepared(fresh: ServerProcess): Promise<boolean> {
    const promoted = later<boolean>();
    onPromoted = () => promoted.resolve(false);
    // A process that never gets ready keeps nobody from asking again.
    const clock = createClock(PREPARE_MS, () => giveUp(fresh, log));
    clock.start();
    const isPrepared = await Promise.race([fresh.heard('prepared'), promoted.promise]);
    clock.stop();
    return isPrepared;
  }

  async function replaceOld(old: ServerProcess, reason: string): Promise<void> {
    // There is room for two, and the one before may still answer a slow upload.
    if (processes.size > 1)
      log.info({ reason }, 'the process that was replaced before is still there: waiting for its end');
    await processes.endOfOthers(old);
    if (!isWanted(old)) return;
    log.info({ reason }, 'replacing the server process');
    const fresh = processes.launch({ takesOver: true, mayStandIn: old.complete === false });
    next = fresh;
    const isPrepared = await prepared(fresh);
    // The old one has died meanwhile, and the new one is in its place already.
    if (next !== fresh) return;
    if (!isPrepared || stop.aborted) {
      next = null;
      if (!stop.aborted) tellOfFailure(await fresh.ended, killOf, log);
      return;
    }
    old.tell({ kind: 'retire' });
    // If it ends instead, by itself or killed for it, that is dealt with where ends are: the new one is promoted.
    if (!(await old.heard('retired')) || next !== fresh) return;
    next = null;
    processes.serve(fresh);
    onReplaced(fresh);
    if (await fresh.heard(READY_MESSAGE)) log.info({ reason }, 'replaced');
  }

  return {
    get isPreparing(): boolean {
      return next !== null;
    },
    /** Resolves when another process serves in the place of the old one, or has failed to. One at a time: another call is that one. */
    replace(old: ServerProcess, reason: string): Promise<void> {
      running ??= replaceOld(old, reason).finally(() => {
        running = null;
      });
      return running;
    },
    /** Resolves when none is under way. */
    async idle(): Promise<void> {
      while (running !== null) await running;
    },
    /** The old process has ended: the one that is getting ready serves in its place. Null: there is none. */
    promote(end: End): ServerProcess | null {
      const fresh = next;
      if (fresh === null) return null;
      log.error(fieldsOf(end), 'server ended, the one that was to replace it serves');
      next = null;
      processes.serve(fresh);
      onPromoted();
      return fresh;
    },
  };
}
