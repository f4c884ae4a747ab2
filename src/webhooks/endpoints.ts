// The webhooks of accounts, in Postgres: where they are, what they want to hear, and with what they are signed, as Standard Webhooks says
// (https://www.standardwebhooks.com).
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { SqlOf } from '../store/postgres.js';

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
/** A secret that was replaced signs as well for so long. */
const FORMER = '24 hours';

export type Endpoints = ReturnType<typeof createEndpoints>;

/** `key`: of the service, for the secrets. */
export function createEndpoints(sqlOf: SqlOf, key: Buffer) {
  const columnsOf = (sql: ReturnType<SqlOf>) => sql`
    id, url, events, is_enabled AS enabled, notice, failing_since AS "failingSince", creation_date AS "creationDate",
    last_update AS "lastUpdate"`;

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
        UPDATE webhooks SET former_secret = secret, former_until = now() + ${FORMER}::interval,
          secret = ${sealSecret(key, id, secret)}, last_update = now()
        WHERE user_id = ${userId} AND id = ${id} RETURNING ${columnsOf(sql)}`;
      return changed === undefined ? null : { ...changed, secret: shownSecret(secret) };
    },
    /** Those that sign now, the newest first. Empty: none can be read any more. */
    async secrets(who: string, id: string): Promise<readonly Buffer[]> {
      const [row] = await sqlOf(who)<{ secret: Buffer; former: Buffer | null }[]>`
        SELECT secret, CASE WHEN former_until > now() THEN former_secret END AS former FROM webhooks WHERE id = ${id}`;
      const sealed = [row?.secret ?? null, row?.former ?? null].filter((each) => each !== null);
      return sealed.map((each) => openSecret(key, id, each)).filter((each) => each !== null);
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

function newSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** As receivers' libraries take it. */
function shownSecret(secret: Buffer): string {
  return PREFIX + secret.toString('base64');
}

/** For the database: of that webhook alone. */
function sealSecret(key: Buffer, webhookId: string, secret: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(webhookId));
  const sealed = Buffer.concat([cipher.update(secret), cipher.final()]);
  return Buffer.concat([nonce, sealed, cipher.getAuthTag()]);
}

/** Null: it is of another key. */
function openSecret(key: Buffer, webhookId: string, sealed: Buffer): Buffer | null {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(webhookId)).setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    // ENCRYPTION_KEY has changed.
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
