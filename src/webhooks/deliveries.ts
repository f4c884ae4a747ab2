// Webhooks in Postgres: where those of an account are, what they want to hear and with what they are signed (https://www.standardwebhooks.com); and the outbox: which endpoints have
// something to be sent, in which order, when again, and what has come of it. Nodes share it.
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Sql, SqlOf } from '../store/postgres.js';
import { sharedFor, within } from '../waiting/within.js';

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

export interface DeliveryAttempt {
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
/** No lease or rest ends later, and nothing was written later, unless the clock was ahead. */
const AHEAD = '5 minutes';
const NOTICE = 'Switched off: all attempts of three days have failed';
const SWITCHED_OFF = 'The webhook was switched off';
/** Deliveries that are over are shown for so long. */
const DELIVERED_KEPT = '7 days';
const FAILED_KEPT = '30 days';
const SWEPT_ROWS = 5_000;

export type Deliveries = ReturnType<typeof createDeliveries>;

/** `sql`: a share of the database's connections that scans' rows don't wait behind. */
export function createDeliveries(sql: Sql, sqlOf: SqlOf) {
  return { ...leases(sql), ...attempts(sql), ...shown(sql, sqlOf) };
}

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
    /** Not of those that were released meanwhile: nobody would send to them until the lease is over. */
    async renew(webhookIds: readonly string[]): Promise<void> {
      await sql`
        UPDATE webhooks SET leased_until = now() + ${LEASE}::interval
        WHERE id = ANY(${[...webhookIds]}::uuid[]) AND leased_until > '-infinity'`;
    },
    /**
     * What is due at the endpoint: of each scan the first that is not over. `IS TRUE` and `OFFSET 0` leave the planner the index of a scan's deliveries alone: until the
     * table is analyzed it takes the others for nearly empty, and reads all that waits for each row.
     */
    async due(webhookId: string, count: number): Promise<readonly Delivery[]> {
      return await sql<Delivery[]>`
        SELECT d.number::float8 AS number, id, scan_id AS "scanId", event, attempts FROM webhook_deliveries d
        WHERE webhook_id = ${webhookId} AND state = 'waiting' AND next_at <= now()
          AND NOT EXISTS (SELECT FROM webhook_deliveries e
            WHERE e.scan_id = d.scan_id AND (e.webhook_id = d.webhook_id AND e.state = 'waiting' AND e.number < d.number) IS TRUE OFFSET 0)
        ORDER BY next_at, d.number LIMIT ${count}`;
    },
    async release(webhookId: string): Promise<void> {
      await sql`UPDATE webhooks SET leased_until = '-infinity' WHERE id = ${webhookId}`;
    },
  };
}

function attempts(sql: Sql) {
  return {
    /** Returns what the delivery is from here on. */
    async attempted(
      webhookId: string,
      { number, attempts: before }: Delivery,
      attempt: DeliveryAttempt,
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
        ORDER BY webhook_deliveries.number DESC LIMIT ${limit}`;
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
      await forgetClockAhead(sql);
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

/** What was put off by a clock that was ahead, and was set right since, would wait until that time: it is due now. */
async function forgetClockAhead(sql: Sql): Promise<void> {
  await sql`
    UPDATE webhooks SET leased_until = '-infinity', rests_until = '-infinity'
    WHERE leased_until > now() + ${AHEAD}::interval OR rests_until > now() + ${AHEAD}::interval`;
  await sql`
    UPDATE webhook_deliveries SET next_at = now(), last_update = now()
    WHERE number IN (
      SELECT number FROM webhook_deliveries WHERE state = 'waiting' AND last_update > now() + ${AHEAD}::interval LIMIT ${SWEPT_ROWS})`;
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
  return sharedFor(REMEMBERED_MS, () => within(outboxState(sql), ANSWER_MS).catch(() => null));
}

export const EVENTS = ['scan.completed', 'scan.infected', 'scan.failed'] as const;
export type EventName = (typeof EVENTS)[number];

export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly events: readonly EventName[];
  readonly enabled: boolean;
  /** Why the service has switched it off; null: it hasn't. */
  readonly notice: string | null;
  readonly failingSince: Date | null;
  readonly creationDate: Date;
  readonly lastUpdate: Date;
}

/** The only times that the secret is shown. */
export interface EndpointWithSecret extends Endpoint {
  readonly secret: string;
}

interface EndpointChange {
  readonly url?: string | undefined;
  readonly events?: readonly EventName[] | undefined;
  readonly enabled?: boolean | undefined;
}

export const ENDPOINTS_MAX = 10;
/** Secrets that were replaced sign as well, until the last one of them was for so long, and so many at most. */
const FORMER = '24 hours';
const FORMER_MAX = 4;

export type Endpoints = ReturnType<typeof createEndpoints>;

const columnsOf = (sql: ReturnType<SqlOf>) => sql`
  id, url, events, is_enabled AS enabled, notice, failing_since AS "failingSince", creation_date AS "creationDate",
  last_update AS "lastUpdate"`;

/** The secrets that sign now, sealed, one behind the other. */
const goodSecrets = (sql: ReturnType<SqlOf>) => sql`
  secret || CASE WHEN former_until > now() THEN former_secret ELSE ''::bytea END`;

/** `key`: of the service, for the secrets. */
export function createEndpoints(sqlOf: SqlOf, key: Buffer) {
  async function find(userId: string, id: string): Promise<Endpoint | null> {
    const sql = sqlOf(userId);
    const [found] = await sql<Endpoint[]>`
      SELECT ${columnsOf(sql)} FROM webhooks WHERE user_id = ${userId} AND id = ${id}`;
    return found ?? null;
  }

  return {
    find,
    async list(userId: string): Promise<readonly Endpoint[]> {
      const sql = sqlOf(userId);
      return await sql<Endpoint[]>`SELECT ${columnsOf(sql)} FROM webhooks WHERE user_id = ${userId} ORDER BY id`;
    },
    /** Null: the account has as many as it may. */
    async create(userId: string, url: string, events: readonly EventName[]): Promise<EndpointWithSecret | null> {
      const [id, secret] = [uuidv7(), newSecret()];
      const created = await sqlOf(userId).transaction('readCommitted', async (tx) => {
        // Of two at once the second one counts the first.
        await tx`SELECT 1 FROM users WHERE id = ${userId} FOR NO KEY UPDATE`;
        const [count] = await tx<{ endpoints: number }[]>`
          SELECT count(*)::int AS endpoints FROM webhooks WHERE user_id = ${userId}`;
        if ((count?.endpoints ?? 0) >= ENDPOINTS_MAX) return false;
        await tx`
          INSERT INTO webhooks (id, user_id, url, events, secret)
          VALUES (${id}, ${userId}, ${url}, ${[...events]}::text[], ${sealSecret(key, id, secret)})`;
        return true;
      });
      const endpoint = created ? await find(userId, id) : null;
      return endpoint === null ? null : { ...endpoint, secret: shownSecret(secret) };
    },
    /** One that is switched on, or is somewhere else, begins anew. */
    async change(userId: string, id: string, { url, events, enabled }: EndpointChange): Promise<Endpoint | null> {
      const sql = sqlOf(userId);
      const isAnew = enabled === true || url !== undefined;
      const list = events === undefined ? null : [...events];
      const [changed] = await sql<Endpoint[]>`
        UPDATE webhooks SET url = coalesce(${url ?? null}, url), events = coalesce(${list}::text[], events),
          is_enabled = coalesce(${enabled ?? null}::boolean, is_enabled), last_update = now(),
          notice = CASE WHEN ${isAnew} THEN NULL ELSE notice END,
          failing_since = CASE WHEN ${isAnew} THEN NULL ELSE failing_since END, failures = 0, rests_until = '-infinity'
        WHERE user_id = ${userId} AND id = ${id} RETURNING ${columnsOf(sql)}`;
      return changed ?? null;
    },
    /** Its deliveries are swept later. */
    async remove(userId: string, id: string): Promise<boolean> {
      return (await sqlOf(userId)`DELETE FROM webhooks WHERE user_id = ${userId} AND id = ${id}`).count > 0;
    },
    async rotate(userId: string, id: string): Promise<EndpointWithSecret | null> {
      const secret = newSecret();
      const sql = sqlOf(userId);
      const [changed] = await sql<Endpoint[]>`
        UPDATE webhooks SET former_secret = substring(${goodSecrets(sql)} FOR ${FORMER_MAX * SEALED_BYTES}),
          former_until = now() + ${FORMER}::interval, secret = ${sealSecret(key, id, secret)}, last_update = now()
        WHERE user_id = ${userId} AND id = ${id} RETURNING ${columnsOf(sql)}`;
      return changed === undefined ? null : { ...changed, secret: shownSecret(secret) };
    },
    /** Those that sign now, the newest first. Empty: none can be read any more. */
    async secrets(who: string, id: string): Promise<readonly Buffer[]> {
      const sql = sqlOf(who);
      const [row] = await sql<{ sealed: Buffer }[]>`
        SELECT ${goodSecrets(sql)} AS sealed FROM webhooks WHERE id = ${id}`;
      return sealedOnes(row?.sealed ?? Buffer.alloc(0))
        .map((each) => openSecret(key, id, each))
        .filter((each) => each !== null);
    },
  };
}

/** Whether the secrets of the newest webhook can't be read: ENCRYPTION_KEY is another one than it was. */
export async function areSealedOtherwise(
  sqlOf: SqlOf,
  who: string,
  endpoints: Pick<Endpoints, 'secrets'>,
): Promise<boolean> {
  const [newest] = await sqlOf(who)<{ id: string }[]>`SELECT id FROM webhooks ORDER BY id DESC LIMIT 1`;
  return newest !== undefined && (await endpoints.secrets(who, newest.id)).length === 0;
}

const PREFIX = 'whsec_';
/** The specification wants 24 to 64 bytes. */
const SECRET_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SEALED_BYTES = NONCE_BYTES + SECRET_BYTES + TAG_BYTES;

const newSecret = (): Buffer => randomBytes(SECRET_BYTES);

/** As receivers' libraries take it. */
const shownSecret = (secret: Buffer): string => PREFIX + secret.toString('base64');

/** For the database: of that webhook alone. */
function sealSecret(key: Buffer, webhookId: string, secret: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(webhookId));
  const sealed = Buffer.concat([cipher.update(secret), cipher.final()]);
  return Buffer.concat([nonce, sealed, cipher.getAuthTag()]);
}

const sealedOnes = (sealed: Buffer): readonly Buffer[] =>
  Array.from({ length: sealed.length / SEALED_BYTES }, (_, index) =>
    sealed.subarray(index * SEALED_BYTES, (index + 1) * SEALED_BYTES),
  );

/** Null: it is of another key. */
function openSecret(key: Buffer, webhookId: string, sealed: Buffer): Buffer | null {
  try {
    const nonce = sealed.subarray(0, NONCE_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.from(webhookId)).setAuthTag(sealed.subarray(-TAG_BYTES));
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    // ENCRYPTION_KEY has changed, or the row is damaged.
    return null;
  }
}

interface Message {
  /** The same at each attempt. */
  readonly id: string;
  readonly body: string;
}

/** The headers of one attempt. Several secrets: a receiver may know any of them. */
export function signedHeaders(
  { id, body }: Message,
  secrets: readonly Buffer[],
  nowMs: number,
): Readonly<Record<string, string>> {
  const timestamp = Math.floor(nowMs / 1000);
  const signatures = secrets.map((secret) => {
    const signature = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64');
    return `v1,${signature}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signatures.join(' ') };
}
