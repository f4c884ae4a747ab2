// The history of one process: rows taken in, copied to the database behind, in batches, for as long as it takes; partitions kept; started and stopped as one.
import { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { JOURNAL_FOLDER } from '../paths.js';
import type { Sql } from '../store/postgres.js';
import { endsWithin, within, withinOr } from '../waiting/within.js';
import { wireDay } from '../wire-text.js';
import { type Journal, openJournal } from './journal.js';
import { createRowStore, type RowEvents } from './rows-to-database.js';
import type { ScanRow } from './scan-row.js';
import type { JournalState } from './segments.js';

interface HistoryOptions {
  readonly sql: Sql;
  readonly dataDirectory: string;
  readonly journalLimitBytes: number;
  readonly retentionDays: number;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
}

export interface HistoryState extends JournalState {
  /** Why rows are refused; null: they aren't. */
  readonly problem: string | null;
}

export type History = Awaited<ReturnType<typeof startHistory>>;

/** Folders of processes that died while this one runs are looked for so often. */
const ADOPT_MS = 30_000;
const STOP_MS = 5_000;
/** A page of the history waits for the rows of its reader at most so long. */
const SETTLE_MS = 1_000;
/** The first failed attempt is logged, then one in so many: a database that is away for a night fills no disk. */
const LOGGED_FAILURES = 20;

export async function startHistory(options: HistoryOptions) {
  const { sql, log } = options;
  const journal = await openJournal({
    directory: join(options.dataDirectory, JOURNAL_FOLDER),
    limitBytes: options.journalLimitBytes,
    onDamage: (damage) =>
      log.error(damage, 'the history journal is damaged; what is whole is kept, the file is put aside'),
    onUnwritten: (error, scans) => log.error({ scans, reason: messageOfError(error) }, 'scans could not be recorded'),
    onTransientFailure: (failure) =>
      log.warn(failure, 'a part of the history journal could not be taken over or put away, which is tried again'),
  });
  const left = journal.state();
  if (left.rows > 0) log.info(left, 'replaying the history journal');
  const endPartitions = await keepPartitions({
    sql,
    retentionDays: options.retentionDays,
    now: Date.now,
    onRetention: (step, month) => {
      const fields = { month, retentionDays: options.retentionDays };
      if (step === 'dropped') log.info(fields, 'a month beyond the retention was dropped from the history');
      else log.warn(fields, 'a month of the history is beyond the retention, and is dropped in a day');
    },
    onFailure: (error) =>
      log.warn({ reason: messageOfError(error) }, 'the partitions of the history could not be kept'),
  });
  const events: RowEvents = new EventEmitter();
  const writer = startWriter({
    journal,
    store: createRowStore(sql, events),
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
  }, ADOPT_MS).unref();

  return {
    /** Why a row could not be recorded now, asked before the work is done; null: it could. */
    refusal: journal.refusal,
    /** Writes the scan's row down with those of the same turn. The scan hears whether that went well. */
    append: journal.append,
    find: journal.find,
    onEnded: (listen: (ids: readonly string[]) => void) => void events.on('ended', listen),
    onTold: (listen: () => void) => void events.on('told', listen),
    /** Resolves when the database has what this process has recorded of the user, or after a moment. */
    async settled(userId: string): Promise<void> {
      const copied = journal.copied(userId);
      if (copied === null) return;
      writer.hurry();
      await withinOr(copied, SETTLE_MS, undefined);
    },
    state: (): HistoryState => ({ ...journal.state(), problem: journal.refusal()?.detail ?? null }),
    /** Copies what waits, for a moment; the rest is for the next start. */
    async stop(): Promise<void> {
      clearInterval(adopting);
      endPartitions();
      await writer.stop(STOP_MS);
      await journal.close();
    },
  };
}

/** This month and the next two: a database that is away for weeks still finds its partition ready. */
const MONTHS_AHEAD = 2;
/** More often than needed: a run that failed, or a lock that couldn't be had, is made up for soon. */
const INTERVAL_MS = 6 * 3_600_000;

interface PartitionOptions {
  readonly sql: Sql;
  readonly retentionDays: number;
  readonly now: () => number;
  /** Called with a month (`YYYY-MM`) a day before it is dropped, and when it is. */
  readonly onRetention: (step: 'announced' | 'dropped', month: string) => void;
  readonly onFailure: (error: unknown) => void;
}

/** Runs at once and then every few hours, on as many nodes as there are. Returns what ends it. */
async function keepPartitions(options: PartitionOptions): Promise<() => void> {
  const run = (): Promise<void> => partition(options).catch(options.onFailure);
  await run();
  const timer = setInterval(run, INTERVAL_MS).unref();
  return () => clearInterval(timer);
}

/**
 * A month goes when its last day is older than the retention, one a day at most; its counts go with it. No clock alone decides that:
 * the function of the database asks this one, its own and the newest row's, and one that was wrong for less than a day drops nothing.
 */
export async function partition({ sql, retentionDays, now, onRetention }: PartitionOptions): Promise<void> {
  const today = new Date(now());
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead += 1) {
    const month = new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + ahead, 1));
    await sql`SELECT make_scan_partition(${wireDay(month)}::text::date)`;
  }
  const [retired] = await sql<{ dropped: string | null; announced: string | null }[]>`
    SELECT to_char(dropped, 'YYYY-MM') AS dropped, to_char(announced, 'YYYY-MM') AS announced
    FROM retire_scan_month(${today}, ${retentionDays})`;
  if (retired === undefined) return;
  const { dropped, announced } = retired;
  if (dropped !== null) {
    await sql`DELETE FROM key_days WHERE day < ${`${dropped}-01`}::date + interval '1 month'`;
    onRetention('dropped', dropped);
  }
  if (announced !== null) onRetention('announced', announced);
}

/** Rows of one transaction: making its statements and adding the rows keeps this thread and the database for a moment only. */
const BATCH_ROWS = 512;
/** Rows gather so long, unless a batch is full before: few transactions, and a history that looks immediate. */
const GATHER_MS = 200;
/** Between attempts while the database is away; doubled each time. */
const RETRY_FIRST_MS = 100;
const RETRY_MAX_MS = 5_000;
/**
 * A batch without an answer for so long has failed. A connection whose other end is gone without a word is dead for the kernel only
 * after a quarter of an hour; the slowest batch takes seconds. Rows that come again are harmless: the database knows them by id.
 */
const BATCH_TIMEOUT_MS = 60_000;
/** Attempts without an answer that there may be at once: each holds a connection of the few, and its rows in memory. */
const ATTEMPTS_AT_ONCE = 4;

type Store = (rows: readonly ScanRow[]) => Promise<void>;

interface WriterOptions {
  readonly journal: Journal;
  readonly store: Store;
  /** Called for every attempt that failed, with how many in a row. */
  readonly onFailure: (error: unknown, attempts: number) => void;
  readonly onRecovery: () => void;
  /** For tests: until a batch counts as failed. */
  readonly batchTimeoutMs?: number;
}

export function startWriter(options: WriterOptions) {
  const { journal, onFailure, onRecovery, batchTimeoutMs = BATCH_TIMEOUT_MS } = options;
  const store = storeInTime(options.store, batchTimeoutMs);
  const pauses = createPauses(journal);
  /** The journal may be closed, and another process may have it. */
  let isOver = false;
  let failures = 0;

  /** False: there is nothing to copy. */
  async function copyBatch(): Promise<boolean> {
    const batch = await journal.read(BATCH_ROWS);
    if (batch !== null) {
      await store(batch.rows);
      if (isOver) return false;
      batch.commit();
    }
    if (failures > 0) onRecovery();
    failures = 0;
    return batch !== null;
  }

  async function copy(): Promise<void> {
    for (;;) {
      try {
        const isCopied = await copyBatch();
        if (isOver || (!isCopied && pauses.isStopping())) return;
        if (!isCopied) await pauses.untilRows();
        await pauses.gather();
      } catch (error) {
        failures += 1;
        onFailure(error, failures);
        if (pauses.isStopping()) return;
        await pauses.pause(Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** (failures - 1)));
      }
    }
  }

  const ended = copy();
  return {
    /** Somebody waits for the rows that are there: they don't wait for more. */
    hurry: pauses.hurry,
    /** Copies what is there without waiting for more, at most `timeoutMs`, and ends; one failure ends it too. */
    async stop(timeoutMs: number): Promise<void> {
      pauses.stop();
      await endsWithin(ended, timeoutMs);
      isOver = true;
    },
  };
}

/** Rejects when there is no answer in time. A later answer is ignored: its rows have been sent again. */
function storeInTime(store: Store, timeoutMs: number): Store {
  /** Attempts without an answer; each resolves when it has one, whatever it is. */
  const unanswered = new Set<Promise<void>>();
  return async (rows) => {
    if (unanswered.size >= ATTEMPTS_AT_ONCE) await within(Promise.race(unanswered), timeoutMs);
    const attempt = store(rows);
    const answered: Promise<void> = attempt.then(
      () => void unanswered.delete(answered),
      () => void unanswered.delete(answered),
    );
    unanswered.add(answered);
    await within(attempt, timeoutMs);
  };
}

function createPauses(journal: Journal) {
  let isStopping = false;
  let isHurried = false;
  /** Ends the pause that there is, if its end has come. */
  let look: () => void = () => undefined;

  /** Until so many rows wait, or it is over otherwise, and at most so long; null: for ever. A stop ends every pause early, and there are none after it. */
  async function pauseUntil(rows: number, ms: number | null, isOver: () => boolean): Promise<void> {
    const hasEnded = (): boolean => isStopping || journal.waiting.rows >= rows || isOver();
    if (hasEnded()) return;
    await new Promise<void>((resolve) => {
      const timer = ms === null ? undefined : setTimeout(resolve, ms);
      look = () => {
        if (!hasEnded()) return;
        clearTimeout(timer);
        resolve();
      };
      journal.onRows(rows, look);
    });
    look = () => undefined;
    journal.onRows(Number.POSITIVE_INFINITY, look);
  }

  return {
    isStopping: () => isStopping,
    pause: (ms: number) => pauseUntil(Number.POSITIVE_INFINITY, ms, () => false),
    untilRows: () => pauseUntil(1, null, () => false),
    /** Until a batch is full, or somebody hurries or has hurried, or for as long as rows gather. */
    async gather(): Promise<void> {
      await pauseUntil(BATCH_ROWS, GATHER_MS, () => isHurried);
      isHurried = false;
    },
    hurry(): void {
      isHurried = true;
      look();
    },
    stop(): void {
      isStopping = true;
      look();
    },
  };
}
