// One account by its e-mail address, for a protocol without keys: looked up now and then, and not for each of its scans.
import { performance } from 'node:perf_hooks';
import type { Queries } from '../store/postgres.js';
import { within } from '../waiting/within.js';
import { findUserByEmail, type UserRow } from './users.js';

export interface NamedAccount {
  /** Null: there is none of that address. Throws Failure('unavailable') when Postgres never said, and doesn't now. */
  find(): Promise<UserRow | null>;
  /** As it was found last; null: nobody has asked, or there is none. */
  known(): UserRow | null;
}

/**
 * A removed account is served for so long. What counts against its limit asks the ledger each time, so that a suspension, another plan and another
 * limit hold at once on every node.
 */
const FRESH_MS = 1_000;
/** Longer than this nobody waits for Postgres whose account was found before: what it said last is taken. */
const REFRESH_MS = 250;

export function createNamedAccount(sql: Queries, email: string): NamedAccount {
  let known: UserRow | null = null;
  let freshUntilMs = Number.NEGATIVE_INFINITY;
  let running: Promise<UserRow | null> | null = null;

  async function look(): Promise<UserRow | null> {
    try {
      known = await findUserByEmail(sql, email);
      freshUntilMs = performance.now() + FRESH_MS;
      return known;
    } finally {
      running = null;
    }
  }

  return {
    known: () => known,
    async find() {
      if (performance.now() < freshUntilMs) return known;
      running ??= look();
      if (known === null) return await running;
      try {
        return await within(running, REFRESH_MS);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        freshUntilMs = performance.now() + FRESH_MS;
        return known;
      }
    },
  };
}
