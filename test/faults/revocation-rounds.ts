// Rounds of a key's life over two servers that share Redis and Postgres: made on one, used on both at once, deleted on either, and used on.
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import { z } from 'zod';
import { openPostgres } from '../../src/store/postgres.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, post, signIn } from '../fixtures/sign-in.js';

export interface RevocationOptions {
  /** Rounds go on until so many scans were asked for. */
  readonly requests: number;
  /** From 0 to 1: when a key is deleted, and where. */
  readonly random: () => number;
}

export interface RevocationReport {
  readonly rounds: number;
  readonly requests: number;
  /** Scans answered 200, all asked for before the deletion was answered. */
  readonly admitted: number;
  /** Scans asked for after the deletion was answered. */
  readonly askedAfter: number;
  /** Empty when everything holds. */
  readonly problems: readonly string[];
}

const CONNECTIONS = 8;
const DELETED_AFTER_MAX_MS = 150;
/** Of each connection, after the deletion was answered. */
const ASKED_AFTER = 12;
const BOUNDARY = 'sluice-test-boundary';
const Created = z.object({ uuid: z.string(), value: z.string() });

const form = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\ncontent\r\n--${BOUNDARY}--\r\n`;

export async function runRevocations({ requests, random }: RevocationOptions): Promise<RevocationReport> {
  const postgres = await startPostgres();
  const redis = await startRedis();
  const databaseUrl = await postgres.database();
  const env = {
    PLANS: 'LARGE:999999999',
    BOOTSTRAP_PLAN: 'LARGE',
    DATABASE_URL: databaseUrl,
    REDIS_URL: redis.url,
  };
  const servers = [await startServer({ isSupervised: true, env }), await startServer({ env })];
  const store = await openPostgres({ kind: 'url', url: databaseUrl });
  const pools = servers.map(({ url }) => new Pool(url, { connections: CONNECTIONS }));
  const report = { rounds: 0, requests: 0, admitted: 0, askedAfter: 0, problems: [] as string[] };
  const urlOf = (share: number): string => servers[Math.floor(share * servers.length)]?.url ?? '';

  async function scan(pool: Pool, key: string): Promise<number> {
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: '/api/v1/scans',
      headers: { 'X-API-KEY': key, 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
      body: form,
    });
    await body.dump();
    report.requests += 1;
    return statusCode;
  }

  async function round(token: string): Promise<void> {
    const madeOn = random();
    const { value, uuid } = Created.parse(
      (await post(`${urlOf(madeOn)}/web/keys`, { name: 'race' }, bearer(token))).body,
    );
    let isGone = false;
    const use = async (pool: Pool): Promise<void> => {
      for (let after = 0; after < ASKED_AFTER; ) {
        const wasGone = isGone;
        const status = await scan(pool, value);
        if (status === 200 && !wasGone) report.admitted += 1;
        else if (status !== 401) report.problems.push(`round ${report.rounds}: ${status}, gone: ${wasGone}`);
        // Between the commit and its answer a key may be refused already.
        else if (!wasGone && !isDeleting) report.problems.push(`round ${report.rounds}: refused before it was deleted`);
        if (!wasGone) continue;
        after += 1;
        report.askedAfter += 1;
      }
    };
    let isDeleting = false;
    const uses = pools.flatMap((pool) => Array.from({ length: CONNECTIONS }, () => use(pool)));
    await delay(random() * DELETED_AFTER_MAX_MS);
    isDeleting = true;
    const { status } = await ask(`${urlOf(random())}/web/keys/${uuid}`, { method: 'DELETE', headers: bearer(token) });
    isGone = true;
    if (status !== 204) report.problems.push(`round ${report.rounds}: the deletion got ${status}`);
    await Promise.all(uses);
    report.rounds += 1;
  }

  try {
    let token = '';
    // A deletion that fails leaves its users asking for ever: the first problem ends the run.
    while (report.requests < requests && report.problems.length === 0) {
      if (report.rounds % 50 === 0) {
        token = (await signIn(urlOf(0))).accessToken;
        // A user may not make and end keys as fast as these rounds do.
        await store.sql`DELETE FROM sign_in_attempts`;
      }
      await round(token);
    }
    return report;
  } finally {
    await Promise.all(pools.map((pool) => pool.close()));
    for (const server of servers) await server.stop();
    await store.close();
    await redis.stop();
    await postgres.stop();
  }
}
