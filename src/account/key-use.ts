// When keys were used last: noted in memory by whoever scans, written to Postgres in batches, never backwards and never for a key that is gone.
import type { Sql } from '../store/postgres.js';
import { within } from '../store/within.js';

export interface KeyTouch {
  readonly keyId: string;
  readonly atMs: number;
}

export interface KeyUse {
  /** Costs one entry of a map. */
  used(keyId: string, atMs: number): void;
  /** What Postgres perhaps doesn't know yet; null: nothing. */
  pending(keyId: string): Date | null;
  /** Writes what is left, if Postgres takes it within five seconds. */
  stop(): Promise<void>;
}

export interface KeyUseOptions {
  readonly flush: (touches: readonly KeyTouch[]) => Promise<void>;
  readonly intervalMs: number;
  /** Told once when writing fails, until it works again. */
  readonly onProblem: (error: unknown) => void;
}

/** What a kill may cost of `lastUse`, and how often Postgres is written to at most. */
export const KEY_USE_INTERVAL_MS = 1_000;
/** Keys that are noted while Postgres is away, some 200 bytes each; the one noted first makes room. */
export const PENDING_MAX = 50_000;
/** Rows of one statement: some tens of milliseconds. */
const BATCH_KEYS = 5_000;
const STOP_TIMEOUT_MS = 5_000;

export function createKeyUse({ flush, intervalMs, onProblem }: KeyUseOptions): KeyUse {
  let noted = new Map<string, number>();
  /** Being written or written last: whoever asked Postgres a moment before the commit looks here a moment after it. */
  let writing: ReadonlyMap<string, number> = new Map();
  let timer: NodeJS.Timeout | null = null;
  let running: Promise<void> = Promise.resolve();
  let isStopped = false;
  let isFailing = false;

  function note(keyId: string, atMs: number): void {
    noted.set(keyId, Math.max(atMs, noted.get(keyId) ?? atMs));
    if (noted.size <= PENDING_MAX) return;
    for (const first of noted.keys()) {
      noted.delete(first);
      break;
    }
  }

  /** Armed by the first note: a service that nobody uses writes nothing. */
  function arm(): void {
    if (timer !== null || isStopped) return;
    timer = setTimeout(() => {
      running = write().finally(() => {
        timer = null;
        if (noted.size > 0) arm();
      });
    }, intervalMs);
    timer.unref();
  }

  async function write(): Promise<void> {
    const batch = noted;
    noted = new Map();
    writing = batch;
    const touches = [...batch].map(([keyId, atMs]) => ({ keyId, atMs }));
    let written = 0;
    try {
      for (; written < touches.length; written += BATCH_KEYS) await flush(touches.slice(written, written + BATCH_KEYS));
      isFailing = false;
    } catch (error) {
      if (!isFailing) onProblem(error);
      isFailing = true;
      for (const { keyId, atMs } of touches.slice(written)) note(keyId, atMs);
    }
  }

  return {
    used(keyId, atMs) {
      note(keyId, atMs);
      arm();
    },
    pending(keyId) {
      const atMs = Math.max(noted.get(keyId) ?? 0, writing.get(keyId) ?? 0);
      return atMs === 0 ? null : new Date(atMs);
    },
    async stop() {
      isStopped = true;
      if (timer !== null) clearTimeout(timer);
      const last = running.then(() => (noted.size > 0 ? write() : undefined));
      await within(last, STOP_TIMEOUT_MS).catch(onProblem);
    },
  };
}

/** One statement: later than what is there, or nothing. Rows are locked in one order, so that nodes don't wait for each other in a circle. */
export async function touchKeys(sql: Sql, touches: readonly KeyTouch[]): Promise<void> {
  const ids = touches.map(({ keyId }) => keyId);
  const times = touches.map(({ atMs }) => atMs);
  // Whatever the database's default is: a snapshot would fail on a row that another node has just touched.
  await sql.begin('isolation level read committed', async (tx) => {
    await tx`
      WITH touched AS (
        SELECT id, to_timestamp(max(at) / 1000.0) AS at
        FROM unnest(${ids}::uuid[], ${times}::double precision[]) AS t (id, at) GROUP BY id
      ), locked AS (
        SELECT k.id, t.at FROM api_keys k JOIN touched t ON t.id = k.id ORDER BY k.id FOR NO KEY UPDATE OF k
      )
      UPDATE api_keys k SET last_use = GREATEST(k.last_use, l.at) FROM locked l
      WHERE k.id = l.id AND (k.last_use IS NULL OR k.last_use < l.at)`;
  });
}
