// Throttling of sign-ins, registrations and changes of keys: leaky buckets in Postgres, so that all nodes count together.
import { createHash } from 'node:crypto';
import type { Queries, Sql } from '../store/postgres.js';

export interface Rule {
  readonly name: string;
  /** Attempts that may come at once. */
  readonly burst: number;
  /** One more is allowed each so often. */
  readonly everyMs: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Everything from one address: an office of people who mistype has room; a list of passwords does not. */
export const signInsOfAddress: Rule = { name: 'sign-in address', burst: 30, everyMs: 20 * SECOND };
/** One account from one address: a user who has forgotten the password has ten tries, then one a minute. */
export const signInsOfPair: Rule = { name: 'sign-in account address', burst: 10, everyMs: MINUTE };
/** One account from everywhere it isn't signed in from: a thousand addresses have a hundred tries an hour between them. */
export const signInsOfAccount: Rule = { name: 'sign-in account', burst: 100, everyMs: 36 * SECOND };
/** Guesses of the current password in one session: a thief of its token must not find the password as well. */
export const passwordsOfSession: Rule = { name: 'password session', burst: 10, everyMs: MINUTE };
/** New accounts from one address. */
export const registrationsOfAddress: Rule = { name: 'registration address', burst: 30, everyMs: MINUTE };
/** Attempts to make an account of one e-mail address, from everywhere: each costs a hash of a password, and says whether it is taken. */
export const registrationsOfAccount: Rule = { name: 'registration account', burst: 10, everyMs: MINUTE };
/** Keys made by one user: a script that makes one for each build has room; one in a loop does not. */
export const keyCreationsOfUser: Rule = { name: 'key creation', burst: 100, everyMs: 10 * SECOND };
/** Attempts of one user to end a key, counted apart: a user who has made too many keys can still end those that leaked. */
export const keyEndsOfUser: Rule = { name: 'key end', burst: 200, everyMs: 5 * SECOND };

/**
 * Counts an attempt in one statement; null when it is allowed, otherwise the seconds until one is. What is refused doesn't count:
 * however hard somebody tries, the next allowed attempt comes as soon. The time is the caller's clock.
 */
export async function takeAttempt(
  sql: Sql,
  rule: Rule,
  subject: readonly string[],
  nowMs: number,
): Promise<number | null> {
  const bucket = bucketOf(rule, subject);
  const now = new Date(nowMs);
  const first = new Date(nowMs + rule.everyMs);
  const full = new Date(nowMs + rule.burst * rule.everyMs);
  const step = `${rule.everyMs} milliseconds`;
  // Whatever the database's default is: a snapshot would fail on a row that others count in.
  const [row] = await sql.transaction(
    'readCommitted',
    (tx) => tx<{ taken: boolean; full_until: Date }[]>`
    WITH taken AS (
      INSERT INTO sign_in_attempts AS a (bucket, full_until) VALUES (${bucket}, ${first})
      ON CONFLICT (bucket) DO UPDATE SET full_until = greatest(a.full_until, ${now}) + ${step}::interval
      WHERE greatest(a.full_until, ${now}) + ${step}::interval <= ${full}
      RETURNING full_until
    )
    SELECT true AS taken, full_until FROM taken
    UNION ALL
    SELECT false, full_until FROM sign_in_attempts WHERE bucket = ${bucket} AND NOT EXISTS (SELECT FROM taken)`,
  );
  if (row?.taken === true) return null;
  // No row: it was filled at this moment, by others.
  const waitMs = row === undefined ? rule.everyMs : row.full_until.getTime() + rule.everyMs - full.getTime();
  return Math.max(1, Math.ceil(waitMs / SECOND));
}

/** Takes an attempt back that turned out to be honest. */
export async function giveAttemptBack(sql: Sql, rule: Rule, subject: readonly string[]): Promise<void> {
  const step = `${rule.everyMs} milliseconds`;
  await sql.transaction('readCommitted', async (tx) => {
    await tx`
      UPDATE sign_in_attempts SET full_until = full_until - ${step}::interval
      WHERE bucket = ${bucketOf(rule, subject)}`;
  });
}

/** Removes buckets that are empty; returns how many. */
export async function sweepAttempts(sql: Queries, nowMs: number): Promise<number> {
  return (await sql`DELETE FROM sign_in_attempts WHERE full_until <= ${new Date(nowMs)}`).count;
}

/** Hashed: of one size whatever was typed, and no list of addresses. */
function bucketOf({ name }: Rule, subject: readonly string[]): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([name, ...subject]))
    .digest();
}
