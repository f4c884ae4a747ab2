// The log: JSON lines on stdout (a command's: on stderr), written in batches off the request's way. A reader that stalls or leaves holds nobody up.
import { type Logger, pino } from 'pino';
import sonicBoom from 'sonic-boom';
import { processAddon } from './process-addon.js';
import { recentTable } from './recent-table.js';
import { endsWithin } from './waiting/within.js';

export type Log = Logger;

export interface EventLog extends Log {
  /**
   * A line of level info about what happens many times a second: the same line as by `info`, for less of it. `members`: its fields as
   * members of a JSON object, one at least, in pieces. The message needs no escapes.
   */
  event(members: readonly (string | number)[], message: string): void;
}

/**
 * Bytes that may wait in memory before they are written, and that a kill may cost: a write costs another thread's turn, and this
 * one's afterwards. A pipe takes no more than 4 KB as one: lines of PROCESSES behind a reader that is slow may be torn.
 */
const BATCH_BYTES = 16 * 1024;
/** One write is not longer than this. */
const WRITE_BYTES = 32 * 1024;
/** A line waits no longer than this. */
const FLUSH_MS = 200;
/** Bytes that wait for a reader that has stalled; what comes then is dropped. */
const BACKLOG_BYTES = 8 * 1024 * 1024;
const NONE: readonly string[] = [];
const EVENT = `{"level":${pino.levels.values['info']},"time":"`;
/** How long the last lines may wait for such a reader. */
const LAST_FLUSH_MS = 1000;

/**
 * Not pino's own destination: that one flushes synchronously when the process exits. It sleeps on the main thread as long as the reader
 * does not read, which is for ever when the reader is gone.
 */
export function createLog(level: string, fd: number = process.stdout.fd) {
  const stream = new sonicBoom.SonicBoom({
    fd,
    sync: false,
    // All that it has: the lines have gathered before.
    minLength: 1,
    maxWrite: WRITE_BYTES,
    maxLength: BACKLOG_BYTES,
  });
  let reader: 'there' | 'gone' = 'there';
  stream.on('error', () => {
    // EPIPE and similar errors: nobody reads the log any more.
    reader = 'gone';
  });
  const flushOnce = (): Promise<boolean> =>
    endsWithin(new Promise<void>((resolve) => stream.flush(() => resolve())), LAST_FLUSH_MS);

  const lines = gatherLines((text) => stream.write(text));
  const logger = pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line) => lines.add(line, NONE, '') },
  );
  const time = createTimeText();
  const event: EventLog['event'] = (members, message) => {
    if (logger.isLevelEnabled('info')) lines.add(`${EVENT}${time()}",`, members, `,"msg":"${message}"}\n`);
  };

  return {
    log: Object.assign(logger, { event }) satisfies EventLog,
    /** Resolves when all lines are written, or can't be: then the exit waits for no thread that writes. To be waited for before an exit. */
    async flush(): Promise<void> {
      // The first time ends with the write that is under way, which may not have the last lines.
      let isWritten = true;
      for (let round = 0; round < 2 && reader === 'there'; round += 1) {
        lines.hand();
        isWritten = await flushOnce();
      }
      if (!isWritten) leaveWriter();
    },
  };
}

/** Of Node's threads one is in a write that ends when the reader reads again. An exit would wait for it, deaf to all signals. */
function leaveWriter(): void {
  process.once('exit', (code) => processAddon()?.endProcess(code));
}

/** Holds lines back until they are enough, or old enough: the stream would measure all that it has anew with each line. */
function gatherLines(write: (text: string) => void) {
  /** Of lines, in their order. What is behind the first `count` of them is of lines that were handed on: the list keeps its room. */
  const held: (string | number)[] = [];
  let count = 0;
  let characters = 0;
  let timer: NodeJS.Timeout | null = null;

  function hand(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    held.length = count;
    const text = held.join('');
    count = 0;
    characters = 0;
    if (text !== '') write(text);
  }

  return {
    /** A line in pieces. */
    add(start: string, pieces: readonly (string | number)[], end: string): void {
      held[count++] = start;
      for (const piece of pieces) {
        held[count++] = piece;
        if (typeof piece === 'string') characters += piece.length;
      }
      held[count++] = end;
      characters += start.length + end.length;
      if (characters >= BATCH_BYTES) hand();
      else timer ??= setTimeout(hand, FLUSH_MS).unref();
    },
    hand,
  };
}

/** Returns what writes the time down: a date only once in each second, and what is behind it once in each millisecond. */
function createTimeText(): () => string {
  let second = '';
  let secondMs = Number.NaN;
  let text = '';
  let textMs = Number.NaN;
  return () => {
    const nowMs = Date.now();
    if (nowMs === textMs) return text;
    const sinceMs = nowMs - secondMs;
    if (!(sinceMs >= 0 && sinceMs < 1000)) {
      secondMs = Math.floor(nowMs / 1000) * 1000;
      second = new Date(secondMs).toISOString().slice(0, -4);
    }
    textMs = nowMs;
    text = `${second}${String(1000 + nowMs - secondMs).slice(1)}Z`;
    return text;
  };
}

const TELL_EVERY_MS = 60_000;
const PROBLEMS_MAX = 100;

/** Returns what tells each problem once a minute, however often it comes: a store that is away for a night fills no disk. `clock`: milliseconds. */
export function seldom(tell: (problem: string) => void, clock = () => performance.now()): (problem: string) => void {
  const toldMs = recentTable<number>(PROBLEMS_MAX);
  return (problem) => {
    if (clock() - (toldMs.get(problem) ?? Number.NEGATIVE_INFINITY) < TELL_EVERY_MS) return;
    toldMs.set(problem, clock());
    tell(problem);
  };
}
