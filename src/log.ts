// The log: JSON lines on stdout, written in batches off the request's way.
import { destination, type Logger, pino } from 'pino';

export type Log = Logger;

/** Bytes that may wait in memory before they are written. */
const BATCH_BYTES = 4096;
/** A line waits no longer than this. */
const FLUSH_MS = 200;

export function createLog(level: string): { readonly log: Log; flush(): void } {
  const stream = destination({ fd: 1, sync: false, minLength: BATCH_BYTES, periodicFlush: FLUSH_MS });
  return {
    log: pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream),
    flush: () => stream.flushSync(),
  };
}
