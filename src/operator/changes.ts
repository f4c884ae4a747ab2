// What an operator changes on accounts: in one transaction with its line of the audit log, and then told to every node. What deleted accounts leave goes later. The log
// says who did what to whom, when, and from which address; it is only added to.
import { endKey, type KeyRevocation, revokeInPostgres } from '../account/keys.js';
import type { DeleteOwn } from '../account/parts.js';
import { endOtherSessions } from '../account/sessions.js';
import { allowanceOf, findUser, type Role, type UserRow, userColumns } from '../account/users.js';
import { limitOf, type Plans, SUSPENDED_LIMIT } from '../config/plans.js';
import { messageOfError } from '../error-text.js';
import { Failure } from '../errors.js';
import type { Log } from '../log.js';
import type { Queries, Sql, SqlOf } from '../store/postgres.js';
import { createRounds } from '../waiting/limiter.js';

/** From its return on every node counts against the new limit; throws Failure('unavailable') when one can't be reached. */
export interface Nodes extends KeyRevocation {
  setLimit(userId: string, hourlyLimit: number): Promise<void>;
}

export interface ChangeParts {
  readonly sql: Sql;
  readonly nodes: Nodes;
  readonly plans: Plans;
}

/** Scans per hour: above it a count would be no exact number in the database. */
export const LIMIT_MAX = 1_000_000_000;

/** What is left out stays. */
export interface AccountChange {
  readonly plan?: string | undefined;
  /** Null: the plan's limit. */
  readonly ownLimit?: number | null | undefined;
  readonly role?: Role | undefined;
  readonly isSuspended?: boolean | undefined;
}

/**
 * Null: there is no such account. A suspended account has no session, and its keys count against a limit of none. The same call, repeated,
 * tells nodes that could not be told. Throws Failure `operatorsOnly` when the actor is no operator any more.
 */
export async function changeAccount(
  { sql, nodes, plans }: ChangeParts,
  actor: Actor,
  userId: string,
  change: AccountChange,
): Promise<UserRow | null> {
  const changed = await sql.transaction('readCommitted', async (tx): Promise<UserRow | null> => {
    const user = await lockAccount(tx, actor, userId);
    if (user === null) return null;
    const next = applied(user, change);
    await tx`
      UPDATE users SET plan = ${next.plan}, own_limit = ${next.own_limit}, role = ${next.role},
        suspended_at = CASE WHEN ${next.suspended_at !== null} THEN COALESCE(suspended_at, now()) END
      WHERE id = ${userId}`;
    if (next.suspended_at !== null) await endOtherSessions(tx, userId, null);
    for (const difference of differences(user, next)) await record(tx, actor, { ...difference, target: user });
    return next;
  });
  if (changed !== null) await nodes.setLimit(userId, limitOf(plans, allowanceOf(changed)));
  return changed;
}

/** Both rows in one order: of two operators who demote each other one is late, and is refused. */
async function lockAccount(tx: Queries, actor: Actor, userId: string): Promise<UserRow | null> {
  const rows = await tx<UserRow[]>`
    SELECT ${userColumns(tx)} FROM users
    WHERE id = ${userId} OR id = ${actor.userId} ORDER BY id FOR NO KEY UPDATE`;
  if (actor.userId !== null && actor.isOwner !== true) {
    const acting = rows.find(({ id }) => id === actor.userId);
    if (acting?.role !== 'operator' || acting.suspended_at !== null) throw new Failure('operatorsOnly');
  }
  return rows.find(({ id }) => id === userId) ?? null;
}

function applied(user: UserRow, { plan, ownLimit, role, isSuspended }: AccountChange): UserRow {
  const suspendedAt = isSuspended === true ? (user.suspended_at ?? new Date()) : null;
  return {
    ...user,
    plan: plan ?? user.plan,
    own_limit: ownLimit === undefined ? user.own_limit : ownLimit,
    role: role ?? user.role,
    suspended_at: isSuspended === undefined ? user.suspended_at : suspendedAt,
  };
}

function differences(before: UserRow, after: UserRow): Omit<AuditEntry, 'target'>[] {
  const found: Omit<AuditEntry, 'target'>[] = [];
  if (before.plan !== after.plan) found.push({ action: 'account.plan', detail: { from: before.plan, to: after.plan } });
  if (before.own_limit !== after.own_limit) {
    found.push({ action: 'account.limit', detail: { from: before.own_limit, to: after.own_limit } });
  }
  if (before.role !== after.role) found.push({ action: 'account.role', detail: { from: before.role, to: after.role } });
  const wasSuspended = before.suspended_at !== null;
  const isSuspended = after.suspended_at !== null;
  if (wasSuspended !== isSuspended) found.push({ action: isSuspended ? 'account.suspend' : 'account.restore' });
  return found;
}

/** False: there is no such account. Throws Failure `operatorsOnly`, as above. */
export async function endSessionsOf(sql: Sql, actor: Actor, userId: string): Promise<boolean> {
  return await sql.transaction('readCommitted', async (tx) => {
    const user = await lockAccount(tx, actor, userId);
    if (user === null) return false;
    await endOtherSessions(tx, userId, null);
    await record(tx, actor, { action: 'sessions.end', target: user });
    return true;
  });
}

/** As `endKey`; its line is in the log also where nodes could not be told. */
export function endKeyOf(
  { sql, nodes }: { readonly sql: Sql; readonly nodes: KeyRevocation },
  actor: Actor,
  userId: string | null,
  reference: string,
): ReturnType<typeof endKey> {
  return endKey(sql, nodes, userId, reference, async (tx, key) => {
    const target = await findUser(tx, key.userId);
    await record(tx, actor, { action: 'key.revoke', target, detail: { key: key.keyId, name: key.name } });
  });
}

/** Subscriptions that Stripe doesn't charge any more. */
const ENDED_SUBSCRIPTIONS = ['canceled', 'incomplete_expired'];

type NodesOf = Pick<ChangeParts, 'sql' | 'nodes'>;

/**
 * Deletes an account with its keys and sessions, and has its scans removed. False: there is no such account. Throws Failure `conflict` while it
 * has a subscription. After Failure `unavailable` the account is suspended, and the upkeep completes it.
 */
export async function deleteAccount({ sql, nodes }: NodesOf, actor: Actor, userId: string): Promise<boolean> {
  const isKnown = await sql.transaction('readCommitted', async (tx) => {
    const user = await lockAccount(tx, actor, userId);
    if (user === null) return false;
    if (actor.isOwner === true && user.role === 'operator') {
      throw new Failure('conflict', 'An operator gives the role up first');
    }
    await refuseIfCharged(tx, userId);
    await tx`UPDATE users SET suspended_at = COALESCE(suspended_at, now()) WHERE id = ${userId}`;
    await endOtherSessions(tx, userId, null);
    const asked = await tx`INSERT INTO deleted_users (id) VALUES (${userId}) ON CONFLICT DO NOTHING`;
    if (asked.count > 0) await record(tx, actor, { action: 'account.delete', target: user });
    return true;
  });
  if (isKnown) await completeDeletion({ sql, nodes }, userId);
  return isKnown;
}

/** Nothing new comes of a suspended account, once the nodes have heard of it: then its row goes. */
async function completeDeletion({ sql, nodes }: NodesOf, userId: string): Promise<void> {
  await nodes.setLimit(userId, SUSPENDED_LIMIT);
  const keys = await sql<{ id: string }[]>`SELECT id FROM api_keys WHERE user_id = ${userId} AND NOT revocation_told`;
  for (const { id } of keys) {
    const key = await revokeInPostgres(sql, userId, id);
    if (key !== null) await nodes.revoke(key);
  }
  await sql`DELETE FROM users WHERE id = ${userId}`;
}

/** A checkout that is open may be paid by who has its address, and then nobody has what it pays for. */
async function refuseIfCharged(tx: Queries, userId: string): Promise<void> {
  const [found] = await tx<{ subscription: boolean; checkout: boolean }[]>`
    SELECT EXISTS (SELECT FROM billing_customers WHERE user_id = ${userId} AND subscription_id IS NOT NULL
        AND NOT COALESCE(status, '') = ANY(${ENDED_SUBSCRIPTIONS})) AS subscription,
      EXISTS (SELECT FROM billing_checkouts WHERE user_id = ${userId} AND session_id IS NOT NULL AND closed_at IS NULL
        AND expires_at > now()) AS checkout`;
  if (found?.subscription === true)
    throw new Failure('conflict', 'The account has a subscription: cancel it at Stripe first');
  if (found?.checkout === true)
    throw new Failure(
      'conflict',
      'The account has a checkout at Stripe that can still be paid: it ends within two hours',
    );
}

/** For the owner of an account, who has said the password again. */
export function ownDeletion({ sqlOf, nodes }: { readonly sqlOf: SqlOf; readonly nodes: Nodes }): DeleteOwn {
  return async ({ userId, email, address }) => {
    const actor = { userId, name: email, address, isOwner: true } as const;
    await deleteAccount({ sql: sqlOf(userId), nodes }, actor, userId);
  };
}

/** Rows that one statement removes: it takes less than a second. */
const BATCH_ROWS = 5_000;
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** A journal may bring rows of before for as long. */
const LATE_ROWS = '40 days';

/** Removes the scans of accounts that are gone. What is left when `signal` aborts is removed by the next call. */
export async function eraseScans(sql: Queries, signal: AbortSignal): Promise<void> {
  const gone = sql`SELECT id FROM deleted_users WHERE deleted_at > now() - ${LATE_ROWS}::interval`;
  const users = await sql<{ id: string }[]>`
    SELECT id FROM (${gone}) gone WHERE (SELECT id FROM scans WHERE user_id = gone.id ORDER BY id LIMIT 1) IS NOT NULL`;
  for (const { id } of users) {
    for (let count = BATCH_ROWS; count >= BATCH_ROWS && !signal.aborted; ) {
      // Up to an id and not by a list of them, and asked for in their order: each partition's primary key finds them then.
      ({ count } = await sql`
        DELETE FROM scans WHERE user_id = ${id} AND id <= COALESCE(
          (SELECT id FROM scans WHERE user_id = ${id} ORDER BY id OFFSET ${BATCH_ROWS - 1} LIMIT 1), ${LAST_ID})`);
    }
  }
  await sql`DELETE FROM scan_days WHERE user_id IN (${gone})`;
  await sql`DELETE FROM key_days WHERE user_id IN (${gone})`;
  await sql`DELETE FROM quota_hours WHERE user_id IN (${gone})`;
}

/** Rows that were on their way into the database when an account was deleted are there for so long. */
const UPKEEP_EVERY_MS = 10_000;

/** Completes what is to be deleted, removes its scans, and lines of the audit log that are a year old. `sql`: for work that nobody waits for with a request. */
export function startUpkeep({ sql, nodes }: NodesOf, log: Pick<Log, 'warn'>) {
  const stopping = new AbortController();
  async function tend(): Promise<void> {
    try {
      const left = await sql<{ id: string }[]>`SELECT id FROM users WHERE id IN (SELECT id FROM deleted_users)`;
      for (const { id } of left) await completeDeletion({ sql, nodes }, id);
      await eraseScans(sql, stopping.signal);
      // The database allows no more.
      await sql`DELETE FROM audit_log WHERE at < now() - interval '1 year'`;
    } catch (error) {
      if (stopping.signal.aborted) return;
      log.warn({ reason: messageOfError(error) }, 'the upkeep of deleted accounts failed; it is tried again');
    }
  }

  const { now, stop } = createRounds(UPKEEP_EVERY_MS, tend);
  return {
    /** At once, for an account that has just been deleted. */
    now: (): void => void now(),
    async stop(): Promise<void> {
      stopping.abort();
      await stop();
    },
  };
}

export interface Actor {
  /** Null: the command line. */
  readonly userId: string | null;
  readonly name: string;
  /** Null: the machine itself. */
  readonly address: string | null;
  /** It is about the account of the actor, who need not be an operator. */
  readonly isOwner?: true;
}

export const ACTIONS = [
  'account.plan',
  'account.limit',
  'account.role',
  'account.suspend',
  'account.restore',
  'account.delete',
  'account.password',
  'account.add',
  'account.reset',
  'account.two-factor',
  'key.create',
  'key.revoke',
  'sessions.end',
  'signatures.update',
  'content.allow',
] as const;
export type Action = (typeof ACTIONS)[number];

export interface AuditEntry {
  readonly action: Action;
  /** Whom it was done to; null: nobody. */
  readonly target: { readonly id: string; readonly email: string } | null;
  readonly detail?: Readonly<Record<string, string | number | boolean | null>>;
}

export interface AuditRow {
  readonly id: string;
  readonly at: Date;
  readonly actor: string;
  readonly address: string | null;
  readonly action: Action;
  readonly targetId: string | null;
  readonly target: string | null;
  readonly detail: Readonly<Record<string, unknown>>;
}

export async function record(sql: Queries, actor: Actor, { action, target, detail = {} }: AuditEntry): Promise<void> {
  await sql`
    INSERT INTO audit_log (actor_id, actor, address, action, target_id, target, detail)
    VALUES (${actor.userId}, ${actor.name}, ${actor.address}, ${action}, ${target?.id ?? null}, ${target?.email ?? null},
      ${JSON.stringify(detail)}::text::jsonb)`;
}

export interface AuditPlace {
  /** Rows older than this one; null: from the newest on. */
  readonly before: string | null;
  readonly targetId: string | null;
  /** An address that an account had which may be gone. */
  readonly target?: string | null;
  readonly rows: number;
}

/** The newest first. */
export async function listAudit(
  sql: Queries,
  { before, targetId, target = null, rows }: AuditPlace,
): Promise<AuditRow[]> {
  return await sql<AuditRow[]>`
    SELECT id::text AS id, at, actor, address, action, target_id AS "targetId", target, detail FROM audit_log
    WHERE (${before}::bigint IS NULL OR id < ${before}::bigint) AND (${targetId}::uuid IS NULL OR target_id = ${targetId}::uuid)
      AND (${target}::text IS NULL OR target = ${target}::text)
    ORDER BY audit_log.id DESC LIMIT ${rows}`;
}
