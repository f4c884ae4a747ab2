// The history of one process: rows taken in, copied to the database behind, partitions kept; started and stopped as one.

import { join } from 'node:path';
import { messageOfError } from '../error-text.js';
import { Unavailable } from '../errors.js';
import type { Sql } from '../store/postgres.js';
import { Refused } from './intake.js';
import { openJournal } from './journal.js';
import type { JournalState } from './journal-facts.js';
import { keepPartitions } from './partitions.js';
import { createRowStore } from './rows-to-database.js';
import type { ScanRow } from './scan-row.js';
import { startWriter } from './writer.js';

export interface HistoryOptions {
  readonly sql: Sql;
  readonly dataDirectory: string;
  readonly journalLimitBytes: number;
  readonly retentionDays: number;
  readonly log: HistoryLog;
}

/** The part of the log that is used. */
export interface HistoryLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface HistoryState extends JournalState {
  /** Why rows are refused; null: they aren't. */
  readonly problem: string | null;
}

export interface History {
  /** Throws Failure `unavailable` when a row could not be recorded now: asked before the work is done. */
  assertOpen(): void;
  /** Resolves when the row can't get lost any more by the end of this process; rejects with Failure `unavailable`. */
  record(row: ScanRow): Promise<void>;
  state(): HistoryState;
  /** Copies what waits, for a moment; the rest is for the next start. */
  stop(): Promise<void>;
}

/** Folders of processes that died while this one runs are looked for so often. */
const ADOPT_MS = 30_000;
const STOP_MS = 5_000;
/** The first failed attempt is logged, then one in so many: a database that is away for a night fills no disk. */
const LOGGED_FAILURES = 20;

export async function startHistory(options: HistoryOptions): Promise<History> {
  const { sql, log } = options;
  const journal = await openJournal({
    directory: join(options.dataDirectory, 'journal'),
    limitBytes: options.journalLimitBytes,
    onDamage: (damage) =>
      log.error(damage, 'the history journal is damaged; what is whole is kept, the file is put aside'),
    onTransientFailure: (failure) =>
      log.warn(failure, 'a part of the history journal could not be taken over or put away, which is tried again'),
  });
  const left = journal.state();
  if (left.rows > 0) log.info(left, 'replaying the history journal');
  const endPartitions = await keepPartitions({
    sql,
    retentionDays: options.retentionDays,
    now: Date.now,
    onDropped: (months) => log.info({ months }, 'months beyond the retention dropped from the history'),
    onFailure: (error) =>
      log.warn({ reason: messageOfError(error) }, 'the partitions of the history could not be kept'),
  });
  const writer = startWriter({
    journal,
    store: createRowStore(sql),
    onFailure: (error, attempts) => {
      if (attempts % LOGGED_FAILURES !== 1) return;
      log.warn({ ...journal.state(), attempts, reason: messageOfError(error) }, 'the history waits for the database');
    },
    onRecovery: () => log.info(journal.state(), 'the history reaches the database again'),
  });
  const adopting = setInterval(() => {
    journal
      .adopt()
      .catch((error: unknown) => log.warn({ reason: messageOfError(error) }, 'a journal could not be taken over'));
  }, ADOPT_MS);
  adopting.unref();

  return {
    assertOpen() {
      const reason = journal.refusal();
      if (reason !== null) throw new Unavailable('journalRefuses', { text: reason });
    },
    async record(row) {
      try {
        await journal.append(row);
      } catch (error) {
        if (error instanceof Refused) throw new Unavailable('journalRefuses', { text: error.message });
        log.error({ scanId: row.id, reason: messageOfError(error) }, 'a scan could not be recorded');
        throw new Unavailable('notRecorded');
      }
    },
    state: () => ({ ...journal.state(), problem: journal.refusal() }),
    async stop() {
      clearInterval(adopting);
      endPartitions();
      await writer.stop(STOP_MS);
      await journal.close();
    },
  };
}
