// The log: JSON lines on stdout (a command's: on stderr), written in batches off the request's way. A reader that stalls or leaves holds nobody up.
import { type Logger, pino } from 'pino';
import sonicBoom from 'sonic-boom';

export type Log = Logger;

export interface EventLog extends Log {
  /**
   * A line of level info about what happens many times a second: the same line as by `info`, for less of it. The fields are plain
   * values; there are no serializers, and no errors.
   */
  event(fields: Readonly<Record<string, string | number | boolean | null>>, message: string): void;
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
/** How long the last lines may wait for such a reader. */
const LAST_FLUSH_MS = 1000;

export interface OpenLog {
  readonly log: EventLog;
  /** Resolves when all lines are written, or can't be. To be waited for before an exit. */
  flush(): Promise<void>;
}

/**
 * Not pino's own destination: that one flushes synchronously when the process exits, and sleeps on the main thread for as long
 * as nobody reads, which for a reader that is gone is for ever.
 */
export function createLog(level: string, fd: number = process.stdout.fd): OpenLog {
  const stream = new sonicBoom.SonicBoom({
    fd,
    sync: false,
    minLength: BATCH_BYTES,
    maxWrite: WRITE_BYTES,
    periodicFlush: FLUSH_MS,
    maxLength: BACKLOG_BYTES,
  });
  let reader: 'there' | 'gone' = 'there';
  stream.on('error', () => {
    // EPIPE and its kind: there is nobody left to tell.
    reader = 'gone';
  });
  const flushOnce = (): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, LAST_FLUSH_MS);
      stream.flush(() => {
        clearTimeout(timer);
        resolve();
      });
    });

  const logger = pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream);
  const event: EventLog['event'] = (fields, message) => {
    if (!logger.isLevelEnabled('info')) return;
    const line = { level: pino.levels.values['info'], time: new Date().toISOString(), ...fields, msg: message };
    stream.write(`${JSON.stringify(line)}\n`);
  };

  return {
    log: Object.assign(logger, { event }),
    async flush() {
      // The first time ends with the write that is under way, which may not have the last lines.
      for (let round = 0; round < 2 && reader === 'there'; round += 1) await flushOnce();
    },
  };
}
