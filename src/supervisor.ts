// The supervisor: keeps one server process running, forwards signals to it, and ends with its exit code.
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { performance } from 'node:perf_hooks';
import type { Log } from './log.js';

/** sysexits.h EX_UNAVAILABLE: the server can't start here (port in use, data directory locked). Final before the first ready. */
export const EXIT_UNAVAILABLE = 69;
/** sysexits.h EX_OSERR: the process itself could not be started. Final before the first ready. */
const EXIT_OS_ERROR = 71;
/** sysexits.h EX_CONFIG: the configuration is wrong. Always final: only an operator can change that. */
export const EXIT_CONFIG = 78;

/** What the server process sends over the IPC channel once it serves. */
export const READY_MESSAGE = 'ready';

export interface BackOff {
  /** Before the first restart; it doubles with each one. */
  readonly firstMs: number;
  readonly limitMs: number;
  /** A server that was ready for so long makes the next delay the first one again. */
  readonly healthyMs: number;
}

export interface SuperviseOptions {
  readonly command: string;
  readonly arguments: readonly string[];
  readonly log: Log;
  readonly backOff?: BackOff;
  /** A stop signal that comes so soon after the first one is the same wish, by another way. */
  readonly sameWishMs?: number;
}

/** How a server process ended. */
interface End {
  readonly exitCode: number;
  readonly signal: NodeJS.Signals | null;
  readonly readyForMs: number | null;
}

const DEFAULT_BACK_OFF: BackOff = { firstMs: 100, limitMs: 30_000, healthyMs: 60_000 };
/** npm passes on what a terminal or a service manager has sent to all of us: milliseconds later. People need longer. */
const DEFAULT_SAME_WISH_MS = 250;
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT'];
const OTHER_SIGNALS: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGUSR2'];

/**
 * Resolves with the exit code of the last server process (128 + n when signal n ended it), when it is not to be restarted.
 * The child shares our process group and gets a terminal's Ctrl-C twice, from the terminal and from here: it must take
 * every stop signal after the first for the same wish. The second one that arrives here is the one that kills it.
 */
export async function supervise(options: SuperviseOptions): Promise<number> {
  const { log, backOff = DEFAULT_BACK_OFF, sameWishMs = DEFAULT_SAME_WISH_MS } = options;
  const stop = new AbortController();
  let askedAtMs = 0;
  let child: ChildProcess | null = null;
  /** The signal that was forwarded last to the child that runs: ending of it is no crash. */
  let forwarded: NodeJS.Signals | null = null;

  const onStop = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) {
      if (performance.now() - askedAtMs < sameWishMs) return;
      log.warn({ signal }, 'second stop signal: killing the server');
      child?.kill('SIGKILL');
      return;
    }
    askedAtMs = performance.now();
    log.info({ signal }, 'stopping');
    stop.abort();
    forward(signal);
  };
  const forward = (signal: NodeJS.Signals): void => {
    forwarded = signal;
    child?.kill(signal);
  };
  for (const signal of STOP_SIGNALS) process.on(signal, onStop);
  for (const signal of OTHER_SIGNALS) process.on(signal, forward);

  let everReady = false;
  let failures = 0;
  try {
    for (;;) {
      forwarded = null;
      child = spawn(options.command, options.arguments, { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
      const end = await watch(child, log);
      child = null;
      everReady ||= end.readyForMs !== null;
      const asked = stop.signal.aborted || (end.signal !== null && end.signal === forwarded);
      if (asked || isFinal(end.exitCode, everReady)) {
        if (end.exitCode !== 0) log.error(fieldsOf(end), 'server ended');
        return end.exitCode;
      }
      if (end.readyForMs !== null && end.readyForMs >= backOff.healthyMs) failures = 0;
      const delayMs = Math.min(backOff.limitMs, backOff.firstMs * 2 ** failures);
      failures += 1;
      log.error({ ...fieldsOf(end), delayMs }, 'server ended, restarting');
      await pause(delayMs, stop.signal);
      if (stop.signal.aborted) return end.exitCode;
    }
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, onStop);
    for (const signal of OTHER_SIGNALS) process.off(signal, forward);
  }
}

/** Before it was ever ready, a server that says that it can't start here would say so for ever. */
function isFinal(exitCode: number, everReady: boolean): boolean {
  if (exitCode === 0 || exitCode === EXIT_CONFIG) return true;
  return !everReady && (exitCode === EXIT_UNAVAILABLE || exitCode === EXIT_OS_ERROR);
}

/** Resolves when the process is gone. */
function watch(child: ChildProcess, log: Log): Promise<End> {
  return new Promise((resolve) => {
    let readyAtMs: number | null = null;
    child.on('message', (message) => {
      if (message === READY_MESSAGE) readyAtMs ??= performance.now();
    });
    const end = (exitCode: number, signal: NodeJS.Signals | null): void => {
      resolve({ exitCode, signal, readyForMs: readyAtMs === null ? null : performance.now() - readyAtMs });
    };
    child.on('error', (error) => {
      log.error({ err: error }, 'server process');
      // Without a pid it never ran, and there will be no exit event.
      if (child.pid === undefined) end(EXIT_OS_ERROR, null);
    });
    child.on('exit', (code, signal) => {
      if (signal !== null) end(128 + constants.signals[signal], signal);
      else end(code ?? EXIT_OS_ERROR, null);
    });
  });
}

function fieldsOf({ exitCode, signal }: End): { exitCode: number } | { signal: NodeJS.Signals } {
  return signal === null ? { exitCode } : { signal };
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
