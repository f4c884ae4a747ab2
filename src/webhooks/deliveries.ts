// The outbox of webhooks, in Postgres: which endpoints have something to be sent, in which order, when again, and what has come of it. Nodes share it.
import type { Sql, SqlOf } from '../store/postgres.js';
import { within } from '../waiting/within.js';
import type { EventName } from './endpoints.js';

export interface Delivery {
  readonly number: number;
  readonly id: string;
  readonly scanId: string;
  readonly event: EventName;
  /** Before this one. */
  readonly attempts: number;
}

export interface ListedDelivery extends Delivery {
  readonly state: 'waiting' | 'delivered' | 'failed';
  readonly nextAt: Date;
  readonly status: number | null;
  readonly error: string | null;
  readonly creationDate: Date;
  readonly lastUpdate: Date;
}

/** An endpoint that this process alone sends to for a while. */
export interface Leased {
  readonly id: string;
  readonly userId: string;
  readonly url: string;
  readonly isFailing: boolean;
}

export interface Attempt {
  readonly isDelivered: boolean;
  /** The receiver's answer; null: there is none. */
  readonly status: number | null;
  readonly error: string | null;
}

/** Leases of those that are sent to are renewed so often. */
export const RENEW_MS = 4_000;
/** After the first attempt, one after each. */
export const PAUSES_SECONDS = [5, 30, 120, 600, 3_600, 14_400, 43_200] as const;
/** A process that dies keeps its endpoints so long. */
const LEASE = '15 seconds';
const GIVEN_UP = '3 days';
/** An endpoint is left in peace after failures, twice as long each time, so long at most. */
const REST_SECONDS = 60;
const NOTICE = 'Switched off: all attempts of three days have failed';
const SWITCHED_OFF = 'The webhook was switched off';
/** Deliveries that are over are shown for so long. */
const DELIVERED_KEPT = '7 days';
const FAILED_KEPT = '30 days';
/** Of a sweep. */
const SWEPT_ROWS = 5_000;

export type Deliveries = ReturnType<typeof createDeliveries>;

/** `sql`: a share of the database's connections that scans' rows don't wait behind. */
export function createDeliveries(sql: Sql, sqlOf: SqlOf) {
  return { ...leases(sql), ...attempts(sql), ...shown(sql, sqlOf) };
}

/** Who sends to an endpoint, and what. */
function leases(sql: Sql) {
  return {
    /** Endpoints with something to be sent now, which nobody else is at. */
    async lease(count: number, isFailing: boolean): Promise<readonly Leased[]> {
      if (count <= 0) return [];
      // From one webhook to the next along the index: what it costs is a step for each webhook with something waiting, however much that is.
      return await sql<Leased[]>`
        WITH RECURSIVE waiting AS (
          (SELECT webhook_id FROM webhook_deliveries WHERE state = 'waiting' ORDER BY webhook_id LIMIT 1)
          UNION ALL
          SELECT (SELECT d.webhook_id FROM webhook_deliveries d WHERE d.state = 'waiting' AND d.webhook_id > w.webhook_id
            ORDER BY d.webhook_id LIMIT 1)
          FROM waiting w WHERE w.webhook_id IS NOT NULL
        ), due AS (
          SELECT h.id FROM webhooks h JOIN waiting w ON w.webhook_id = h.id
          WHERE h.is_enabled AND h.leased_until < now() AND h.rests_until < now() AND (h.failing_since IS NOT NULL) = ${isFailing}
            AND EXISTS (SELECT 1 FROM webhook_deliveries d
              WHERE d.webhook_id = h.id AND d.state = 'waiting' AND d.next_at <= now())
          ORDER BY random() LIMIT ${count} FOR UPDATE OF h SKIP LOCKED
        )
        UPDATE webhooks h SET leased_until = now() + ${LEASE}::interval FROM due WHERE h.id = due.id
        RETURNING h.id, h.user_id AS "userId", h.url, h.failing_since IS NOT NULL AS "isFailing"`;
    },
    async renew(webhookIds: readonly string[]): Promise<void> {
      await sql`UPDATE webhooks SET leased_until = now() + ${LEASE}::interval WHERE id = ANY(${[...webhookIds]}::uuid[])`;
    },
    /** What is due at the endpoint: of each scan the first that is not over. */
    async due(webhookId: string, count: number): Promise<readonly Delivery[]> {
      return await sql<Delivery[]>`
        SELECT number::float8 AS number, id, scan_id AS "scanId", event, attempts FROM webhook_deliveries d
        WHERE webhook_id = ${webhookId} AND state = 'waiting' AND next_at <= now()
          AND NOT EXISTS (SELECT 1 FROM webhook_deliveries e
            WHERE e.webhook_id = d.webhook_id AND e.scan_id = d.scan_id AND e.state = 'waiting' AND e.number < d.number)
        ORDER BY next_at, number LIMIT ${count}`;
    },
    async release(webhookId: string): Promise<void> {
      await sql`UPDATE webhooks SET leased_until = '-infinity' WHERE id = ${webhookId}`;
    },
  };
}

/** What has come of it. */
function attempts(sql: Sql) {
  return {
    /** Returns what the delivery is from here on. */
    async attempted(
      webhookId: string,
      { number, attempts: before }: Delivery,
      attempt: Attempt,
    ): Promise<ListedDelivery['state']> {
      const { isDelivered, status, error } = attempt;
      const pause = PAUSES_SECONDS[before];
      const state = isDelivered ? 'delivered' : pause === undefined ? 'failed' : 'waiting';
      await sql`
        UPDATE webhook_deliveries SET state = ${state}, attempts = attempts + 1, status = ${status}, error = ${error},
          next_at = now() + ${pause ?? 0} * interval '1 second', last_update = now()
        WHERE number = ${number} AND state = 'waiting'`;
      if (isDelivered) {
        await sql`
          UPDATE webhooks SET failing_since = NULL, failures = 0 WHERE id = ${webhookId} AND failing_since IS NOT NULL`;
      }
      return state;
    },
    /** An attempt has failed. Returns whether the endpoint is switched off by that. */
    async failed(webhookId: string): Promise<boolean> {
      return await sql.transaction('readCommitted', async (tx) => {
        const off = await tx`
          UPDATE webhooks SET failing_since = coalesce(failing_since, now()), failures = failures + 1,
            rests_until = now() + least(${REST_SECONDS}, power(2, least(failures, 10))) * interval '1 second',
            is_enabled = is_enabled AND coalesce(failing_since, now()) > now() - ${GIVEN_UP}::interval,
            notice = CASE WHEN is_enabled AND failing_since <= now() - ${GIVEN_UP}::interval THEN ${NOTICE} ELSE notice END
          WHERE id = ${webhookId} RETURNING is_enabled`;
        if (off[0]?.['is_enabled'] !== false) return false;
        await tx`
          UPDATE webhook_deliveries SET state = 'failed', error = ${SWITCHED_OFF}, last_update = now()
          WHERE webhook_id = ${webhookId} AND state = 'waiting'`;
        return true;
      });
    },
  };
}

/** For who has the webhook, and what becomes of old ones. */
function shown(sql: Sql, sqlOf: SqlOf) {
  return {
    /** Those of one webhook, the newest first. */
    async list(
      userId: string,
      webhookId: string,
      {
        state,
        before,
        limit,
      }: { readonly state: string | null; readonly before: number | null; readonly limit: number },
    ): Promise<readonly ListedDelivery[]> {
      return await sqlOf(userId)<ListedDelivery[]>`
        SELECT number::float8 AS number, id, scan_id AS "scanId", event, attempts, state, next_at AS "nextAt", status, error,
          creation_date AS "creationDate", last_update AS "lastUpdate"
        FROM webhook_deliveries
        WHERE webhook_id = ${webhookId} AND user_id = ${userId} AND (${state}::text IS NULL OR state = ${state})
          AND (${before}::bigint IS NULL OR number < ${before}::bigint)
        ORDER BY number DESC LIMIT ${limit}`;
    },
    /** False: there is none of that id that is over. */
    async sendAgain(userId: string, webhookId: string, id: string): Promise<boolean> {
      const again = await sqlOf(userId)`
        UPDATE webhook_deliveries SET state = 'waiting', attempts = 0, next_at = now(), last_update = now()
        WHERE id = ${id} AND webhook_id = ${webhookId} AND user_id = ${userId} AND state <> 'waiting'`;
      return again.count > 0;
    },
    /** Removes what is over for long, and what is of a webhook that is gone. */
    async sweep(): Promise<void> {
      await sql`
        DELETE FROM webhook_deliveries WHERE number IN (
          SELECT number FROM webhook_deliveries
          WHERE (state = 'delivered' AND last_update < now() - ${DELIVERED_KEPT}::interval)
            OR (state = 'failed' AND last_update < now() - ${FAILED_KEPT}::interval)
            OR creation_date < now() - ${FAILED_KEPT}::interval
          LIMIT ${SWEPT_ROWS})`;
      await sql`
        DELETE FROM webhook_deliveries WHERE number IN (
          SELECT number FROM webhook_deliveries d
          WHERE NOT EXISTS (SELECT 1 FROM webhooks h WHERE h.id = d.webhook_id) LIMIT ${SWEPT_ROWS})`;
    },
  };
}

/** What waits in the outbox, of all nodes. */
export interface OutboxState {
  /** Deliveries that wait; of very many no more than are counted. */
  readonly waiting: number;
  /** How long the oldest of those is due whose receivers take what they are sent. */
  readonly overdueMs: number;
}

/** More are not counted: the question has to be answered soon. */
const COUNTED_ROWS = 100_000;

async function outboxState(sql: Sql): Promise<OutboxState> {
  const [state] = await sql<OutboxState[]>`
    SELECT count(*)::float8 AS waiting,
      coalesce(1000 * extract(epoch FROM now() - min(d.next_at) FILTER (WHERE d.next_at < now() AND h.failing_since IS NULL)), 0)::float8
        AS "overdueMs"
    FROM (SELECT webhook_id, next_at FROM webhook_deliveries WHERE state = 'waiting' LIMIT ${COUNTED_ROWS}) d
    JOIN webhooks h ON h.id = d.webhook_id`;
  return state ?? { waiting: 0, overdueMs: 0 };
}

/** Anybody may ask for it: the database is asked so often at most. */
const REMEMBERED_MS = 5_000;
/** So long its answer is waited for. */
const ANSWER_MS = 1_000;

/** Null: the database doesn't answer. */
export type OutboxLook = () => Promise<OutboxState | null>;

/** For metrics and readiness: what waits, and whether it waits because of us. */
export function createOutboxLook(sql: Sql): OutboxLook {
  let asked: Promise<OutboxState | null> | null = null;
  let askedMs = 0;
  return () => {
    if (asked !== null && performance.now() - askedMs < REMEMBERED_MS) return asked;
    askedMs = performance.now();
    asked = within(outboxState(sql), ANSWER_MS).catch(() => null);
    return asked;
  };
}
