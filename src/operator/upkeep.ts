// What nobody waits for: scans of accounts that are gone are removed, and lines of the audit log that are a year old.
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { sweepAudit } from './audit.js';
import { eraseScans } from './changes.js';

/** Rows that were on their way into the database when an account was deleted are there for so long. */
const EVERY_MS = 10_000;

export interface Upkeep {
  /** At once, for an account that has just been deleted. */
  now(): void;
  stop(): Promise<void>;
}

/** `sql`: for work that nobody waits for with a request. */
export function startUpkeep(sql: Sql, log: Pick<Log, 'warn'>): Upkeep {
  const stopping = new AbortController();
  let running: Promise<void> | null = null;

  async function tend(): Promise<void> {
    try {
      await eraseScans(sql, stopping.signal);
      await sweepAudit(sql);
    } catch (error) {
      if (stopping.signal.aborted) return;
      log.warn({ reason: messageOfError(error) }, 'the upkeep of deleted accounts failed; it is tried again');
    }
  }

  const now = (): void => {
    // A Postgres that hangs must not be given more and more to do.
    running ??= tend().finally(() => {
      running = null;
    });
  };
  const timer = setInterval(now, EVERY_MS);
  return {
    now,
    async stop() {
      clearInterval(timer);
      stopping.abort();
      await running;
    },
  };
}
