// Scans at once with one key, with many keys, and one after the other: what the row of a key that all use at once costs.
import { Pool } from 'undici';
import { createKey } from '../../src/account/keys.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { newUser } from '../fixtures/new-user.js';
import { startPostgres } from '../fixtures/postgres.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { scan } from './form.js';

export interface OneKeyOptions {
  /** Connections, each with one scan at a time; keys too, where each has its own. */
  readonly parallel: number;
  readonly scansOfEach: number;
}

export interface Latency {
  readonly scans: number;
  readonly failed: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly perSecond: number;
}

export interface OneKeyReport {
  readonly oneKeyFirst: Latency;
  readonly oneKey: Latency;
  readonly keysOfOneUser: Latency;
  readonly keysOfManyUsers: Latency;
  readonly oneConnection: Latency;
  /** Keys whose last use isn't that of their last scan, to the second. */
  readonly wrongKeys: number;
  readonly rows: number;
}

export async function runOneKey({ parallel, scansOfEach }: OneKeyOptions): Promise<OneKeyReport> {
  const postgres = await startPostgres();
  const url = await postgres.database();
  const plans = 'FREE:900000000,BUSINESS:900000000';
  const server = await startServer({
    isSupervised: true,
    env: { DATABASE_URL: url, BOOTSTRAP_EMAIL: 'faults@example.com', PLANS: plans },
  });
  const store = await openPostgres({ kind: 'url', url });
  const pool = new Pool(server.url, { connections: parallel });
  try {
    const own = await keysOf(store.sql, await newUser(store.sql, 'one@example.com'), parallel);
    const others: string[] = [];
    for (let user = 0; user < parallel; user += 1) {
      others.push(...(await keysOf(store.sql, await newUser(store.sql, `user-${user}@example.com`), 1)));
    }
    const same = Array.from({ length: parallel }, () => API_KEY);
    // Keys are looked up and connections opened before anything is measured.
    for (const keys of [same, own, others]) await measure(pool, keys, 1);
    // Measured before the others and after: what a server that has just been started costs is no matter of keys.
    const oneKeyFirst = await measure(pool, same, scansOfEach);
    const keysOfOneUser = await measure(pool, own, scansOfEach);
    const keysOfManyUsers = await measure(pool, others, scansOfEach);
    const oneKey = await measure(pool, same, scansOfEach);
    const oneConnection = await measure(pool, [API_KEY], scansOfEach * 10);
    const rows = parallel * (4 * scansOfEach + 3) + scansOfEach * 10;
    await stored(store.sql, rows);
    const wrong = await wrongKeys(store.sql);
    return { oneKeyFirst, oneKey, keysOfOneUser, keysOfManyUsers, oneConnection, wrongKeys: wrong, rows };
  } finally {
    await pool.close();
    await server.stop();
    await store.close();
    await postgres.stop();
  }
}

async function keysOf(sql: Sql, userId: string, count: number): Promise<string[]> {
  const keys: string[] = [];
  for (let key = 0; key < count; key += 1) keys.push((await createKey(sql, { userId, name: `${key}` })).value);
  return keys;
}

/** Each key on its own connection, one scan after the other; contents differ, so nothing is answered from memory. */
async function measure(pool: Pool, keys: readonly string[], scansOfEach: number): Promise<Latency> {
  const tookMs: number[] = [];
  let failed = 0;
  const startedMs = performance.now();
  await Promise.all(
    keys.map(async (key) => {
      for (let sent = 0; sent < scansOfEach; sent += 1) {
        const askedMs = performance.now();
        const { status } = await scan(pool, `${key} ${askedMs} ${Math.random()}`, { key });
        tookMs.push(performance.now() - askedMs);
        if (status !== 200) failed += 1;
      }
    }),
  );
  const seconds = (performance.now() - startedMs) / 1000;
  tookMs.sort((a, b) => a - b);
  const at = (share: number): number => Number((tookMs[Math.floor((tookMs.length - 1) * share)] ?? 0).toFixed(2));
  const perSecond = Math.round(tookMs.length / seconds);
  return { scans: tookMs.length, failed, medianMs: at(0.5), p99Ms: at(0.99), perSecond };
}

async function stored(sql: Sql, rows: number): Promise<void> {
  for (;;) {
    const [found] = await sql<{ rows: number }[]>`SELECT count(*)::integer AS rows FROM scans`;
    if (found?.rows === rows) return;
  }
}

/** Each of the many users has one key, so the scans of the user are those of the key. */
async function wrongKeys(sql: Sql): Promise<number> {
  const [found] = await sql<{ wrong: number }[]>`
    SELECT count(*)::integer AS wrong FROM (
      SELECT user_id, date_trunc('second', max(last_update)) AS at FROM scans WHERE status = 200 GROUP BY user_id
    ) AS used FULL JOIN (
      SELECT user_id, date_trunc('second', max(last_use)) AS at FROM api_keys GROUP BY user_id
    ) AS keys USING (user_id)
    WHERE used.at IS DISTINCT FROM keys.at`;
  return found?.wrong ?? -1;
}
