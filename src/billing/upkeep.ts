// What billing does by itself while the service runs: the nightly reconcile, and announcements of plans that failed before.
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import type { Billing } from './billing.js';
import { reconcile } from './reconcile.js';
import { findUnannounced } from './records.js';

export interface UpkeepParts {
  readonly billing: Billing;
  readonly sql: Sql;
  readonly log: Log;
  readonly now: () => number;
}

export interface Upkeep {
  /** One round, now; it never rejects. Calls while one runs share it. */
  round(): Promise<void>;
  /** Ends what runs, after the customers that are being read. */
  stop(): Promise<void>;
}

/** So late a failed announcement of a plan is repeated, and so late a night's reconcile begins. */
const EVERY_MS = 60_000;
/** UTC; when least is bought, for most. */
const RECONCILE_HOUR = 3;
const ANNOUNCED_AT_ONCE = 100;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Null when billing is off. */
export function startUpkeep({ billing, sql, log, now }: UpkeepParts): Upkeep | null {
  if (!billing.isOn) return null;
  const { stripe, applier } = billing.active();
  const abortion = new AbortController();
  const { signal } = abortion;
  let running: Promise<void> | null = null;

  async function announceLeft(): Promise<void> {
    for (const userId of await findUnannounced(sql, stripe.livemode, ANNOUNCED_AT_ONCE)) {
      if (signal.aborted) return;
      await applier.announce(userId);
    }
  }

  async function reconcileNightly(): Promise<void> {
    const unlessSince = new Date(lastDueMs(now()));
    const result = await reconcile({ stripe, applier, sql, log }, { unlessSince, signal, onProgress: () => undefined });
    if (result.outcome !== 'notNeeded') log.info(result, 'billing: reconcile');
  }

  async function work(): Promise<void> {
    for (const step of [announceLeft, reconcileNightly]) {
      if (signal.aborted) return;
      try {
        await step();
      } catch (error) {
        log.warn({ err: error }, 'billing: the upkeep failed and is tried again in a minute');
      }
    }
  }

  function round(): Promise<void> {
    running ??= work().finally(() => {
      running = null;
    });
    return running;
  }

  const timer = setInterval(() => void round(), EVERY_MS);
  timer.unref();
  return {
    round,
    async stop() {
      clearInterval(timer);
      abortion.abort();
      await running;
    },
  };
}

/** The last time that it was RECONCILE_HOUR. */
export function lastDueMs(nowMs: number): number {
  return Math.floor((nowMs - RECONCILE_HOUR * HOUR_MS) / DAY_MS) * DAY_MS + RECONCILE_HOUR * HOUR_MS;
}
