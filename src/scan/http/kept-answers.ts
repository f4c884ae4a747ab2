// Answers to requests with an Idempotency-Key, kept in Postgres for a day: one request of an account with a key is under way at a time, on all nodes, and those that come meanwhile wait for it.
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { v4 as uuidv4 } from 'uuid';
import { z } from 'zod';
import { Unavailable } from '../../errors.js';
import type { Queries, SqlOf } from '../../store/postgres.js';

export interface KeptAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Claim {
  readonly userId: string;
  readonly claimId: string;
  readonly keyHash: Buffer;
}

export type Claimed =
  /** This request is the one. It must be completed, or given up. */
  | { readonly kind: 'first'; readonly claim: Claim }
  | { readonly kind: 'answered'; readonly fingerprint: string; readonly answer: KeptAnswer };

export interface KeptAnswers {
  /** Waits for a request that is under way, as long as `isGone` says no. Throws Failure `unavailable`. */
  claim(userId: string, key: string, isGone: () => boolean): Promise<Claimed>;
  /** Keeps the answer. `fingerprint`: 64 hex characters over what was sent. */
  complete(claim: Claim, fingerprint: string, answer: KeptAnswer): Promise<void>;
  /** There is no answer to keep: the next request with the key is the first. */
  giveUp(claim: Claim): Promise<void>;
  stop(): void;
}

export interface KeptAnswersOptions {
  readonly sqlOf: SqlOf;
  readonly onProblem: (error: unknown) => void;
}

const KEPT = '24 hours';
/** A process that dies keeps others waiting so long at most. */
const LEASE = '15 seconds';
const RENEW_MS = 4_000;
const SWEEP_MS = 600_000;
/** A request waits so long for the one before it. */
const WAIT_MS = 60_000;
const FIRST_PAUSE_MS = 25;
const LAST_PAUSE_MS = 500;
/** Of one account, in one process: each asks Postgres again and again. */
const WAITS_PER_USER = 16;
/** The party of its own questions, among the accounts that share the store's connections. */
const SERVICE = 'service';

const Headers = z.record(z.string(), z.string());

export function createKeptAnswers({ sqlOf, onProblem }: KeptAnswersOptions): KeptAnswers {
  const underWay = new Map<string, Claim>();
  const waiting = new Map<string, number>();

  async function renew(): Promise<void> {
    if (underWay.size === 0) return;
    await sqlOf(SERVICE)`
      UPDATE kept_answers SET leased_until = now() + ${LEASE}::interval
      WHERE status IS NULL AND claim = ANY(${[...underWay.keys()]}::uuid[])`;
  }
  const sweep = () => sqlOf(SERVICE)`DELETE FROM kept_answers WHERE creation_date < now() - ${KEPT}::interval`;
  const renewing = setInterval(() => renew().catch(onProblem), RENEW_MS).unref();
  const sweeping = setInterval(() => sweep().then(undefined, onProblem), SWEEP_MS).unref();

  async function ask(claim: Claim): Promise<Claimed | null> {
    const sql = sqlOf(claim.userId);
    if (await take(sql, claim)) {
      underWay.set(claim.claimId, claim);
      return { kind: 'first', claim };
    }
    return await look(sql, claim);
  }

  return {
    async claim(userId, key, isGone) {
      const claim = { userId, claimId: uuidv4(), keyHash: createHash('sha256').update(key).digest() };
      const untilMs = performance.now() + WAIT_MS;
      let found = await ask(claim);
      if (found !== null) return found;
      const waits = waiting.get(userId) ?? 0;
      if (waits >= WAITS_PER_USER) throw new Unavailable('sameKeyBusy');
      waiting.set(userId, waits + 1);
      try {
        for (let pauseMs = FIRST_PAUSE_MS; found === null; pauseMs = Math.min(LAST_PAUSE_MS, 2 * pauseMs)) {
          if (isGone() || performance.now() > untilMs) throw new Unavailable('sameKeyBusy');
          await delay(pauseMs);
          found = await ask(claim);
        }
        return found;
      } finally {
        const left = (waiting.get(userId) ?? 1) - 1;
        if (left === 0) waiting.delete(userId);
        else waiting.set(userId, left);
      }
    },
    async complete({ userId, claimId, keyHash }, fingerprint, { status, headers, body }) {
      underWay.delete(claimId);
      await sqlOf(userId)`
        UPDATE kept_answers SET creation_date = now(), fingerprint = decode(${fingerprint}, 'hex'), status = ${status},
          headers = ${JSON.stringify(headers)}::text::jsonb, body = ${body}
        WHERE user_id = ${userId} AND key_hash = ${keyHash} AND claim = ${claimId}`;
    },
    async giveUp({ userId, claimId, keyHash }) {
      underWay.delete(claimId);
      await sqlOf(userId)`
        DELETE FROM kept_answers
        WHERE user_id = ${userId} AND key_hash = ${keyHash} AND claim = ${claimId} AND status IS NULL`;
    },
    stop() {
      clearInterval(renewing);
      clearInterval(sweeping);
    },
  };
}

/** Whether nobody has the key: nobody ever had, the answer is too old, or who had it has died. */
async function take(sql: Queries, { userId, claimId, keyHash }: Claim): Promise<boolean> {
  const taken = await sql`
    INSERT INTO kept_answers AS a (user_id, key_hash, claim, leased_until)
    VALUES (${userId}, ${keyHash}, ${claimId}, now() + ${LEASE}::interval)
    ON CONFLICT (user_id, key_hash) DO UPDATE SET claim = excluded.claim, leased_until = excluded.leased_until,
      creation_date = now(), fingerprint = NULL, status = NULL, headers = NULL, body = NULL
    WHERE CASE WHEN a.status IS NULL THEN a.leased_until < now() ELSE a.creation_date < now() - ${KEPT}::interval END`;
  return taken.count > 0;
}

/** Null: it is under way. */
async function look(sql: Queries, { userId, keyHash }: Claim): Promise<Claimed | null> {
  const [row] = await sql<{ fingerprint: string; status: number | null; headers: unknown; body: string }[]>`
    SELECT encode(fingerprint, 'hex') AS fingerprint, status, headers, body FROM kept_answers
    WHERE user_id = ${userId} AND key_hash = ${keyHash}`;
  // Gone at this moment: the next look takes it.
  if (row === undefined || row.status === null) return null;
  const { fingerprint, status, body } = row;
  return { kind: 'answered', fingerprint, answer: { status, headers: Headers.parse(row.headers), body } };
}
