// The writer: copies the journal into the database in batches, for as long as it takes, and says when it can't.
import { endsWithin, within } from '../waiting/within.js';
import type { Journal } from './journal.js';
import type { ScanRow } from './scan-row.js';

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
  /** A row may come between the look into the journal and the wait for it. */
  let hasArrived = false;
  /** So many rows that wait may be the end of the pause that there is. */
  let leastRows = 0;
  /** Ends it, if its end has come. */
  let look: () => void = () => undefined;

  /** Until then, and at most so long; null: for ever. A stop ends every pause early, and there are none after it. */
  async function pauseUntil(isOver: () => boolean, ms: number | null): Promise<void> {
    if (isStopping || isOver()) return;
    await new Promise<void>((resolve) => {
      const timer = ms === null ? undefined : setTimeout(resolve, ms);
      look = () => {
        if (!isStopping && !isOver()) return;
        clearTimeout(timer);
        resolve();
      };
    });
    look = () => undefined;
  }

  journal.onRows(() => {
    hasArrived = true;
    if (journal.rows() >= leastRows) look();
  });

  return {
    isStopping: () => isStopping,
    pause: (ms: number) => pauseUntil(() => false, ms),
    /** Until a row has come since the last time. */
    async untilRows(): Promise<void> {
      await pauseUntil(() => hasArrived, null);
      hasArrived = false;
    },
    /** Until a batch is full, or somebody hurries or has hurried, or for as long as rows gather. */
    async gather(): Promise<void> {
      leastRows = BATCH_ROWS;
      await pauseUntil(() => isHurried || journal.rows() >= BATCH_ROWS, GATHER_MS);
      leastRows = 0;
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
