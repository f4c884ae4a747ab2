// One server process as its supervisor sees it: its start, the messages both ways, and how it ended.
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { performance } from 'node:perf_hooks';
import { startWaiting } from '../cores.js';
import { MORE_TASKS, messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { type Clock, createClock, later } from '../waiting/within.js';
import { type Order, READY_MESSAGE, type Report, reportShape, type StartOrder } from './channel.js';

/** sysexits.h EX_OSERR: the process itself could not be started. Final before the first ready. */
export const EXIT_OS_ERROR = 71;
/** A process that has stored everything ends within this; one that doesn't has a thread that hangs. */
const EXIT_MS = 2_000;
/** A process that doesn't hand over within this is killed: its main thread hangs. */
const HANDOVER_MS = 10_000;
/** The same for one that has handed over and doesn't say what it needs: an older version, which drains for 30 seconds. */
const RETIRE_MS = 50_000;
/** A process that has not understood within this how it is to start never will: it is of another version. Node itself starts in a second. */
const START_MS = 30_000;
/** What setTimeout can count; more would be no time at all. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export interface End {
  readonly exitCode: number;
  readonly signal: NodeJS.Signals | null;
  /** It has listened. */
  readonly wasReady: boolean;
  /** Since it listened with its first load of signatures behind it, well or not; null: it never got there. */
  readonly servedForMs: number | null;
  /** It ended by itself, with any exit code: nothing was sent to it that makes it end. */
  readonly crashed: boolean;
}

export interface ServerProcess {
  readonly ended: Promise<End>;
  /** Whether the engine that is wanted serves, as far as it has said; null: it has not. */
  readonly complete: boolean | null;
  tell(order: Order): void;
  /** Passes on a signal that ends it, which is no crash then. */
  kill(signal: NodeJS.Signals): void;
  /** Resolves true when it says so, or has said so; false when it ends before. */
  heard(word: ServerWord): Promise<boolean>;
}

type ServerWord = Report['kind'] | typeof READY_MESSAGE;

export interface ServerProcessOptions {
  readonly command: string;
  readonly arguments: readonly string[];
  /** Variables besides ours, or in their place; default: none. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The listening socket that it inherits; null: it opens its own. */
  readonly listener: number | null;
  /** More listening sockets, by what they listen for. They are behind the first one. */
  readonly places: ReadonlyMap<string, number>;
  /** Memory for the digests of what it scans; null: there is none. */
  readonly inFlight: number | null;
  readonly start: Omit<StartOrder, 'inFlight'>;
  /** In which it has to understand that; default: half a minute. */
  readonly startMs?: number;
  readonly log: Log;
  readonly onReport: (report: Report, server: ServerProcess) => void;
}

export function startServerProcess(options: ServerProcessOptions): ServerProcess {
  const { startMs = START_MS, log } = options;
  const spawned = trySpawn(options);
  if (spawned === null) return neverStarted();
  const { child, inFlight } = spawned;
  const words = createWords();
  const kill = createLastResort(log, () => server.kill('SIGKILL'), words.has);
  const starting = createClock(startMs, () => {
    log.error(
      'a server has not answered to its start: it is of an older version (restart the service), or too slow: killing it',
    );
    child.kill('SIGKILL');
  });
  let sent: NodeJS.Signals | null = null;
  let isRetired = false;

  starting.start();
  child.on('message', (message) => {
    const report = message === READY_MESSAGE ? null : reportShape.safeParse(message);
    if (report?.success === false) return;
    starting.stop();
    if (report?.data.kind === 'retired') kill.after(report.data.endsWithinMs ?? RETIRE_MS);
    if (report?.data.kind === 'stopped') kill.after(EXIT_MS);
    words.add(report?.data ?? null);
    if (report !== null) options.onReport(report.data, server);
  });
  const ended = Promise.race([endOf(child, log), kill.inVain]).then(({ exitCode, signal }): End => {
    starting.stop();
    kill.stop();
    words.end();
    if (words.isSilent) tellOfAbort(log, signal);
    const hasStopped = words.has('stopped');
    // A signal that others have sent to it makes it end as well as ours do: but then nobody wants us to end.
    const isClean = exitCode === 0 || hasStopped;
    const asked = (isClean && (sent !== null || isRetired)) || (signal !== null && signal === sent);
    const { servedForMs } = words;
    // Until it listens to signals, a stop ends it by itself; it has left nothing undone.
    const hadNothingToStop = signal !== null && signal === sent && signal !== 'SIGKILL' && !words.has(READY_MESSAGE);
    return {
      exitCode: hasStopped || hadNothingToStop ? 0 : exitCode,
      signal,
      wasReady: words.has(READY_MESSAGE),
      servedForMs,
      crashed: !asked,
    };
  });

  const server: ServerProcess = {
    ended,
    get complete() {
      return words.complete;
    },
    tell(order) {
      if (order.kind === 'retire') {
        isRetired = true;
        kill.after(HANDOVER_MS);
      }
      // It may be gone, or going: then its end says what there is to say.
      if (child.connected) child.send(order, () => undefined);
    },
    kill(signal) {
      sent = signal;
      child.kill(signal);
    },
    heard: words.heard,
  };
  server.tell({ ...options.start, inFlight });
  return server;
}

/** Of a process that has said nothing: Node doesn't either when it can start no thread. */
function tellOfAbort(log: Log, signal: NodeJS.Signals | null): void {
  if (signal === 'SIGABRT') log.error({ reason: MORE_TASKS }, 'Node has aborted at its start, likely because');
}

/** Of a process for which there was no memory, or whose arguments are too long. */
function neverStarted(): ServerProcess {
  const end: End = { exitCode: EXIT_OS_ERROR, signal: null, wasReady: false, servedForMs: null, crashed: true };
  return {
    ended: Promise.resolve(end),
    complete: null,
    tell: () => undefined,
    kill: () => undefined,
    heard: async () => false,
  };
}

/** Null: the system refuses it. `inFlight`: its own descriptor of it. */
function trySpawn({ listener, places, inFlight, log, ...options }: ServerProcessOptions) {
  const given = [
    ...(listener === null ? [] : [listener]),
    ...places.values(),
    ...(inFlight === null ? [] : [inFlight]),
  ];
  const stdio: StdioOptions = ['inherit', 'inherit', 'inherit', 'ipc', ...given];
  const env = { ...process.env, ...options.environment };
  try {
    const child = startWaiting(() => spawn(options.command, options.arguments, { env, stdio }));
    return { child, inFlight: inFlight === null ? null : stdio.length - 1 };
  } catch (error) {
    log.error({ err: error, reason: messageOfError(error) }, 'server process');
    return null;
  }
}

/** What the process has said, for those who wait for it. */
function createWords() {
  const said = new Set<ServerWord>();
  const listeners = new Set<() => void>();
  let isOver = false;
  let servesSinceMs: number | null = null;
  let complete: boolean | null = null;

  function changed(): void {
    for (const listen of [...listeners]) listen();
  }

  return {
    get complete(): boolean | null {
      return complete;
    },
    get servedForMs(): number | null {
      return servesSinceMs === null ? null : performance.now() - servesSinceMs;
    },
    get isSilent(): boolean {
      return said.size === 0;
    },
    has: (word: ServerWord): boolean => said.has(word),
    /** Null: it is ready. */
    add(report: Report | null): void {
      said.add(report?.kind ?? READY_MESSAGE);
      if (said.has(READY_MESSAGE) && said.has('loaded')) servesSinceMs ??= performance.now();
      if (report?.kind === 'loaded') complete = report.complete;
      changed();
    },
    end(): void {
      isOver = true;
      changed();
    },
    heard(word: ServerWord): Promise<boolean> {
      return new Promise((resolve) => {
        const look = (): void => {
          if (!said.has(word) && !isOver) return;
          listeners.delete(look);
          resolve(said.has(word));
        };
        listeners.add(look);
        look();
      });
    },
  };
}

/** Kills a process that doesn't end in time; one that has stopped is not waited for after that. */
function createLastResort(log: Log, kill: () => void, has: (word: ServerWord) => boolean) {
  let clock: Clock | null = null;
  let isOver = false;
  const givenUp = later<Pick<End, 'exitCode' | 'signal'>>();
  const inVain = createClock(EXIT_MS, () => {
    log.error('a process that has stopped does not end: the kernel waits for a file system that hangs');
    givenUp.resolve({ exitCode: 0, signal: 'SIGKILL' });
  });
  return {
    inVain: givenUp.promise,
    /** Instead of what was set before. */
    after(delayMs: number): void {
      clock?.stop();
      if (isOver) return;
      clock = createClock(Math.min(delayMs, TIMER_MAX_MS), () => {
        log.error({ delayMs }, 'a process that was to end did not: killing it');
        kill();
        if (has('stopped')) inVain.start();
      });
      clock.start();
    },
    stop(): void {
      isOver = true;
      clock?.stop();
      inVain.stop();
    },
  };
}

/** Resolves when the process is gone. */
function endOf(child: ChildProcess, log: Log): Promise<Pick<End, 'exitCode' | 'signal'>> {
  return new Promise((resolve) => {
    child.on('error', (error) => {
      log.error({ err: error, reason: messageOfError(error) }, 'server process');
      // Without a pid it never ran, and there will be no exit event.
      if (child.pid === undefined) resolve({ exitCode: EXIT_OS_ERROR, signal: null });
    });
    child.on('exit', (code, signal) => {
      if (signal !== null) resolve({ exitCode: 128 + constants.signals[signal], signal });
      else resolve({ exitCode: code ?? EXIT_OS_ERROR, signal: null });
    });
  });
}

/**
 * Signals that a fault inside the process raises. Not among them is SIGKILL: it comes from outside, from an operator or from
 * the kernel's search for memory, which takes the largest process, whatever that one was scanning; and no exit code, which
 * is our own code's. The process itself reports each content that hangs, before it is killed for it.
 */
const FAULTS: ReadonlySet<NodeJS.Signals | null> = new Set<NodeJS.Signals>([
  'SIGSEGV',
  'SIGBUS',
  'SIGILL',
  'SIGFPE',
  'SIGABRT',
  'SIGTRAP',
  // A scan thread tried what its sandbox kills for.
  'SIGSYS',
]);

/** Whether what was being scanned may have ended it. */
export const isContentsDoing = ({ crashed, signal }: End): boolean => crashed && FAULTS.has(signal);

export function fieldsOf({ exitCode, signal }: End): { exitCode: number } | { signal: NodeJS.Signals } {
  return signal === null ? { exitCode } : { signal };
}
