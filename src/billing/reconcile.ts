// Reconciling: every customer is read from Stripe, in pages, and what the webhooks missed is repaired. One process at a time.
import { randomUUID } from 'node:crypto';
import type { Log } from '../log.js';
import type { Sql } from '../store/postgres.js';
import { createRounds } from '../waiting/limiter.js';
import type { ActiveBilling, Billing } from './billing.js';
import { CUSTOMERS_PAGE, countCustomers, findUnannounced, nextCustomers } from './records.js';
import { logProblem, StripeProblem } from './stripe.js';

interface ReconcileParts extends ActiveBilling {
  readonly sql: Sql;
  readonly log: Log;
}

export interface ReconcileOptions {
  /** Only when the last one that was finished is older; null: in any case. */
  readonly unlessSince: Date | null;
  readonly signal: AbortSignal;
  onProgress(done: number, customers: number): void;
}

export type Reconciled =
  /** `stopped`: not all of them were read, because of the signal or because Stripe is away. */
  | {
      readonly outcome: 'finished' | 'stopped';
      readonly read: number;
      readonly repaired: number;
      readonly failed: number;
    }
  /** Another process does it, or has. */
  | { readonly outcome: 'notNeeded' };

/** Customers that are read at the same time, three calls each: most of Stripe's rate is left to requests of users. */
const AT_ONCE = 4;
/** A page takes 100 / 4 x 3 calls x 20 s at the very worst. A process that dies in it holds the others up for so long. */
const HELD_MINUTES = 30;
/** Failures in a row after which Stripe is taken to be away. */
const FAILURES_MAX = 12;
/** Longer than Stripe repeats an event (three days), and than anybody asks about one. */
const EVENTS_KEPT_DAYS = 30;
const SMALLEST_UUID = '00000000-0000-0000-0000-000000000000';

export async function reconcile(parts: ReconcileParts, options: ReconcileOptions): Promise<Reconciled> {
  const { sql, stripe } = parts;
  const holder = randomUUID();
  if (!(await claim(sql, stripe.livemode, holder, options.unlessSince))) return { outcome: 'notNeeded' };
  const result = await readAll(parts, options, holder);
  if (result.outcome === 'finished') await forgetOld(sql);
  // One that broke off is held a while longer: Stripe is not asked again at once.
  if (result.outcome === 'finished' || options.signal.aborted) await release(sql, stripe.livemode, holder, result);
  return result;
}

async function readAll(
  { sql, stripe, applier, log }: ReconcileParts,
  { signal, onProgress }: ReconcileOptions,
  holder: string,
): Promise<Extract<Reconciled, { read: number }>> {
  const customers = await countCustomers(sql, stripe.livemode);
  let read = 0;
  let repaired = 0;
  let failed = 0;
  let failuresInARow = 0;
  const mayGoOn = (): boolean => !signal.aborted && failuresInARow < FAILURES_MAX;

  async function readOne(userId: string): Promise<void> {
    try {
      const { changed } = await applier.apply(userId);
      // Announced in any case: this mends an admission that got two plans in the wrong order.
      await applier.announce(userId, { always: true });
      if (changed) log.info({ userId }, 'billing: reconciled');
      repaired += changed ? 1 : 0;
      failuresInARow = 0;
    } catch (error) {
      failed += 1;
      failuresInARow += 1;
      if (error instanceof StripeProblem) logProblem(log, error);
      else log.warn({ userId, err: error }, 'billing: a customer could not be reconciled');
    }
    read += 1;
    onProgress(read, Math.max(read, customers));
  }

  onProgress(0, customers);
  let last = SMALLEST_UUID;
  while (mayGoOn() && (await hold(sql, stripe.livemode, holder))) {
    const page = await nextCustomers(sql, stripe.livemode, last);
    last = page.at(-1) ?? last;
    const left = page.values();
    const worker = async (): Promise<void> => {
      for (const userId of left) {
        if (!mayGoOn()) return;
        await readOne(userId);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    if (page.length < CUSTOMERS_PAGE && mayGoOn()) return { outcome: 'finished', read, repaired, failed };
  }
  return { outcome: 'stopped', read, repaired, failed };
}

/** A row with an end instead of an advisory lock: that would keep a connection, and go with it. */
async function claim(sql: Sql, livemode: boolean, holder: string, unlessSince: Date | null): Promise<boolean> {
  await sql`INSERT INTO billing_reconciles (livemode) VALUES (${livemode}) ON CONFLICT DO NOTHING`;
  const rows = await sql`
    UPDATE billing_reconciles SET holder = ${holder}, held_until = now() + ${HELD_MINUTES}::int * interval '1 minute'
    WHERE livemode = ${livemode} AND (held_until IS NULL OR held_until < now())
      AND (${unlessSince}::timestamptz IS NULL OR finished_at IS NULL OR finished_at < ${unlessSince})
    RETURNING livemode`;
  return rows.length > 0;
}

/** False: it took so long that somebody else has begun. */
async function hold(sql: Sql, livemode: boolean, holder: string): Promise<boolean> {
  const rows = await sql`
    UPDATE billing_reconciles SET held_until = now() + ${HELD_MINUTES}::int * interval '1 minute'
    WHERE livemode = ${livemode} AND holder = ${holder} RETURNING livemode`;
  return rows.length > 0;
}

async function release(sql: Sql, livemode: boolean, holder: string, { outcome }: Reconciled): Promise<void> {
  await sql`
    UPDATE billing_reconciles SET holder = NULL, held_until = NULL,
      finished_at = CASE WHEN ${outcome === 'finished'} THEN now() ELSE finished_at END
    WHERE livemode = ${livemode} AND holder = ${holder}`;
}

async function forgetOld(sql: Sql): Promise<void> {
  await sql`DELETE FROM billing_events WHERE applied_at < now() - ${EVENTS_KEPT_DAYS}::int * interval '1 day'`;
  await sql`DELETE FROM billing_checkouts WHERE closed_at < now() - ${EVENTS_KEPT_DAYS}::int * interval '1 day'`;
}

interface UpkeepParts {
  readonly billing: Billing;
  readonly sql: Sql;
  readonly log: Log;
  readonly now: () => number;
}

/** So late a failed announcement of a plan is repeated, and so late a night's reconcile begins. */
const EVERY_MS = 60_000;
/** UTC; when least is bought, for most. */
const RECONCILE_HOUR = 3;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Null when billing is off. */
export function startUpkeep({ billing, sql, log, now }: UpkeepParts) {
  if (!billing.isOn) return null;
  const { stripe, applier } = billing.active();
  const abortion = new AbortController();
  const { signal } = abortion;
  async function announceLeft(): Promise<void> {
    for (const userId of await findUnannounced(sql, stripe.livemode)) {
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

  const { now: round, stop } = createRounds(EVERY_MS, work);
  return {
    /** One round, now; it never rejects. */
    round,
    /** Ends what runs, after the customers that are being read. */
    async stop(): Promise<void> {
      abortion.abort();
      await stop();
    },
  };
}

/** The last time that it was RECONCILE_HOUR. */
export function lastDueMs(nowMs: number): number {
  return Math.floor((nowMs - RECONCILE_HOUR * HOUR_MS) / DAY_MS) * DAY_MS + RECONCILE_HOUR * HOUR_MS;
}
