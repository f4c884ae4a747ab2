// One place for a server process: kept filled, with back-off after crashes, and its process replaced without a gap.
import type { Log } from '../log.js';
import { pause } from '../waiting/pause.js';
import { type BackOff, createDelays } from './back-off.js';
import type { Report } from './messages.js';
import { createProcesses, type StartProcess } from './processes.js';
import { createReplacement } from './replacement.js';
import { type End, EXIT_OS_ERROR, fieldsOf, type ServerProcess } from './server-child.js';

/** sysexits.h EX_UNAVAILABLE: the server can't start here (port in use, data directory locked). Final before the first ready. */
export const EXIT_UNAVAILABLE = 69;
/** sysexits.h EX_CONFIG: the configuration is wrong. Always final: only an operator can change that. */
export const EXIT_CONFIG = 78;

export interface SlotOptions {
  readonly start: StartProcess;
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

export function createSlot({ start, backOff, log, stop }: SlotOptions): Slot {
  const processes = createProcesses(start, onReport);
  const replacement = createReplacement({ processes, isWanted, onReplaced: become, log, stop });
  const delayAfter = createDelays(backOff);
  let main: ServerProcess | null = null;
  /** It ends because it has asked for that; another one follows. */
  let restarting: ServerProcess | null = null;
  let everReady = false;
  let onMainChanged: () => void = () => undefined;

  function isWanted(old: ServerProcess): boolean {
    return main === old && restarting === null && !stop.aborted;
  }

  function become(fresh: ServerProcess): void {
    main = fresh;
    onMainChanged();
  }

  function onReport(report: Report, server: ServerProcess): void {
    // One that is being replaced has nothing more to ask for.
    if (server !== main) return;
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
    if (main !== null && isWanted(main)) await replacement.replace(main, reason);
  }

  /** How the process ended; null: another one has taken its place. */
  async function endOf(server: ServerProcess): Promise<End | null> {
    const changed = new Promise<null>((resolve) => {
      onMainChanged = () => resolve(null);
    });
    const end = await Promise.race([server.ended, changed]);
    everReady ||= end === null || end.wasReady;
    if (main !== server) return null;
    main = null;
    return end;
  }

  /** What is to happen after an end: whether another process is to be started. It may be there already. */
  async function goOnAfter(end: End): Promise<boolean> {
    const isRequested = restarting !== null;
    restarting = null;
    if (stop.aborted) return false;
    if (!isRequested) {
      main = replacement.promote(end);
      if (main !== null) return true;
      if (isOver(end, everReady)) return false;
    }
    const delayMs = delayAfter({ servedForMs: end.servedForMs, lackedMemory: isRequested || isOutOfMemory(end) });
    logRestart(log, isRequested ? null : end, delayMs);
    if (delayMs > 0) await pause(delayMs, stop);
    return !stop.aborted;
  }

  return {
    async run() {
      for (;;) {
        main ??= processes.fill();
        const end = await endOf(main);
        if (end !== null && !(await goOnAfter(end))) return end;
      }
    },
    replace,
    forward: processes.forward,
    firstReady: processes.firstReady,
    empty: processes.empty,
  };
}

/** Null: it ended as it had asked to. */
function logRestart(log: Log, end: End | null, delayMs: number): void {
  if (end === null) log.warn({ delayMs }, 'starting again after a lack of memory');
  else log.error({ ...fieldsOf(end), delayMs }, 'server ended, restarting');
}

/** A SIGKILL that is not ours comes from the kernel, which needs memory: another start would soon be killed as well. */
function isOutOfMemory({ signal, exitCode }: End): boolean {
  return signal === 'SIGKILL' && exitCode !== 0;
}

/** A server that was never ready and can't start here will not start here later either. */
function isOver({ crashed, exitCode }: End, everReady: boolean): boolean {
  if (!crashed || exitCode === EXIT_CONFIG) return true;
  return !everReady && (exitCode === EXIT_UNAVAILABLE || exitCode === EXIT_OS_ERROR);
}
