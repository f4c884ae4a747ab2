// The writer: copies the journal into the database in batches, for as long as it takes, and says when it can't.
import { within } from '../store/within.js';
import type { Journal } from './journal.js';
import type { ScanRow } from './scan-row.js';

/** Rows of one transaction: reading, sending and adding them keeps this thread for a moment only. */
const BATCH_ROWS = 256;
/** Rows gather so long before a batch that isn't full: few transactions, and a history that looks immediate. */
const GATHER_MS = 50;
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

export interface WriterOptions {
  readonly journal: Journal;
  readonly store: (rows: readonly ScanRow[]) => Promise<void>;
  /** Told of every attempt that failed, with how many in a row. */
  readonly onFailure: (error: unknown, attempts: number) => void;
  readonly onRecovery: () => void;
  /** For tests: until a batch counts as failed. */
  readonly batchTimeoutMs?: number;
}

export interface Writer {
  /** Copies what is there without waiting for more, at most `timeoutMs`, and ends; one failure ends it too. */
  stop(timeoutMs: number): Promise<void>;
}

export function startWriter({
  journal,
  store,
  onFailure,
  onRecovery,
  batchTimeoutMs = BATCH_TIMEOUT_MS,
}: WriterOptions): Writer {
  let isStopping = false;
  /** The journal may be closed, and another process may have it. */
  let isOver = false;
  /** Attempts without an answer; each resolves when it has one, whatever it is. */
  const unanswered = new Set<Promise<void>>();
  let failures = 0;
  let wake: () => void = () => undefined;

  /** At most so long; a stop ends it early. */
  async function pause(ms: number | null): Promise<void> {
    if (isStopping) return;
    await new Promise<void>((resolve) => {
      const timer = ms === null ? undefined : setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    wake = () => undefined;
  }

  /** Rejects when there is no answer in time. One that comes later is heard by nobody: what it was about has been asked again. */
  async function storeInTime(batch: readonly ScanRow[]): Promise<void> {
    if (unanswered.size >= ATTEMPTS_AT_ONCE) await within(Promise.race(unanswered), batchTimeoutMs);
    const attempt = store(batch);
    const answered: Promise<void> = attempt.then(
      () => void unanswered.delete(answered),
      () => void unanswered.delete(answered),
    );
    unanswered.add(answered);
    await within(attempt, batchTimeoutMs);
  }

  async function copy(): Promise<void> {
    for (;;) {
      try {
        const batch = await journal.read(BATCH_ROWS);
        if (batch !== null) {
          await storeInTime(batch.rows);
          if (isOver) return;
          batch.commit();
        }
        if (failures > 0) onRecovery();
        failures = 0;
        if (batch === null) {
          if (isStopping) return;
          await rows.wait();
        }
        if (batch === null || batch.rows.length < BATCH_ROWS) await pause(GATHER_MS);
      } catch (error) {
        failures += 1;
        onFailure(error, failures);
        if (isStopping) return;
        await pause(Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** (failures - 1)));
      }
    }
  }

  /** Remembers a row that came between the look into the journal and the wait for it. */
  const rows = {
    arrived: false,
    isWaiting: false,
    async wait(): Promise<void> {
      if (!this.arrived) {
        this.isWaiting = true;
        await pause(null);
        this.isWaiting = false;
      }
      this.arrived = false;
    },
  };
  journal.onRows(() => {
    rows.arrived = true;
    if (rows.isWaiting) wake();
  });
  const ended = copy();

  return {
    async stop(timeoutMs) {
      isStopping = true;
      wake();
      const timer = { id: undefined as NodeJS.Timeout | undefined };
      const late = new Promise<void>((resolve) => {
        timer.id = setTimeout(resolve, timeoutMs);
      });
      await Promise.race([ended, late]);
      clearTimeout(timer.id);
      isOver = true;
    },
  };
}
