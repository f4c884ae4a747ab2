// Sessions and their refresh tokens, on both stores: one use, theft, races, and what "ended" means.
import { performance } from 'node:perf_hooks';
import {
  endSession,
  endSessions,
  findSession,
  listSessions,
  ownerOfToken,
  REFRESH_TOKEN_MS,
  type Refresh,
  refreshSession,
  type StartedSession,
  startSession,
  sweepSessions,
  touchSession,
} from '../../src/account/sessions.js';
import { createUser } from '../../src/account/users.js';
import type { Sql } from '../../src/store/postgres.js';
import { makeTransactionsRepeatable, onEachStore, open } from '../fixtures/stores.js';

const NOW = Date.UTC(2026, 10, 21, 9);
const DAY = 24 * 3600 * 1000;
const MINUTE = 60_000;
const client = { userAgent: 'test/1\u0000', ipAddress: '192.0.2.1' };
const unknownId = '00000000-0000-7000-8000-000000000000';

async function newUser(sql: Sql, email = 'ada@example.com'): Promise<string> {
  const user = await createUser(sql, { email, name: 'Ada', passwordHash: 'hash', plan: 'FREE' });
  if (user.outcome !== 'created') throw new Error('The address is free');
  return user.userId;
}

async function start(sql: Sql, userId: string, nowMs = NOW): Promise<StartedSession> {
  const session = await startSession(sql, { userId, passwordHash: 'hash' }, client, nowMs);
  if (session === null) throw new Error('The password is the one of the account');
  return session;
}

function refresh(sql: Sql, token: string, nowMs = NOW, key: string | null = null): Promise<Refresh> {
  return refreshSession(sql, token, { nowMs, arrivedAt: performance.now(), key });
}

function tokenOf(refreshed: Refresh): string {
  if (refreshed.outcome !== 'refreshed') throw new Error(`It was ${refreshed.outcome}`);
  return refreshed.refreshToken;
}

/** On a busy machine a request that comes a moment after another one is taken for one that was under way beside it. */
async function waitMinute(sql: Sql): Promise<void> {
  await sql`UPDATE refresh_tokens SET used_at = used_at - interval '1 minute'`;
}

onEachStore(async (t, store) => {
  t.test('a session is found for its user alone, with the plan of the moment, until it is ended', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const [userId, otherId] = [await newUser(sql), await newUser(sql, 'eve@example.com')];
    const { sessionId } = await start(sql, userId);
    t.same(await findSession(sql, { userId, sessionId }, NOW), {
      caller: { userId, plan: 'FREE', ownLimit: null, role: 'user', sessionId, twoFactor: false },
      lastUseIsOld: false,
    });
    t.equal(await findSession(sql, { userId: otherId, sessionId }, NOW), null);
    t.equal(await findSession(sql, { userId, sessionId: unknownId }, NOW), null);
    await sql`UPDATE users SET plan = 'PRO' WHERE id = ${userId}`;
    t.match(await findSession(sql, { userId, sessionId }, NOW), { caller: { plan: 'PRO' } });
    t.equal(await endSession(sql, otherId, sessionId), false, 'not by somebody else');
    t.equal(await endSession(sql, userId, sessionId), true);
    t.equal(await endSession(sql, userId, sessionId), false);
    t.equal(await findSession(sql, { userId, sessionId }, NOW), null);
  });

  t.test('its owner sees where it is from and when it was used, to the minute', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql);
    const first = await start(sql, userId);
    const second = await start(sql, userId, NOW + 1000);
    await touchSession(sql, first.sessionId, NOW + MINUTE - 1);
    t.match(await findSession(sql, { userId, ...first }, NOW + MINUTE - 1), { lastUseIsOld: false });
    const [current] = await listSessions(sql, { userId, sessionId: second.sessionId }, NOW);
    t.same(current, {
      id: second.sessionId,
      userAgent: 'test/1',
      ipAddress: '192.0.2.1',
      creationDate: '2026-11-21T09:00:01',
      lastUse: '2026-11-21T09:00:01',
      current: true,
    });
    t.match(await findSession(sql, { userId, ...first }, NOW + MINUTE), { lastUseIsOld: true });
    await touchSession(sql, first.sessionId, NOW + MINUTE);
    const listed = await listSessions(sql, { userId, sessionId: null }, NOW);
    t.match(listed, [{ id: first.sessionId, lastUse: '2026-11-21T09:01:00', current: false }, { current: false }]);
  });

  t.test('a sign-in with a password that has been changed meanwhile starts nothing', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql);
    t.equal(await startSession(sql, { userId, passwordHash: 'an old one' }, client, NOW), null);
    t.same(await listSessions(sql, { userId, sessionId: null }, NOW), []);
  });

  t.test('all sessions end, or all but one, and nobody else is touched', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const [userId, otherId] = [await newUser(sql), await newUser(sql, 'eve@example.com')];
    const [kept] = [await start(sql, userId), await start(sql, userId), await start(sql, otherId)];
    await endSessions(sql, userId, kept.sessionId);
    t.match(await listSessions(sql, { userId, ...kept }, NOW), [{ id: kept.sessionId }]);
    await endSessions(sql, userId, null);
    t.same(await listSessions(sql, { userId, ...kept }, NOW), []);
    t.equal((await listSessions(sql, { userId: otherId, sessionId: null }, NOW)).length, 1);
  });

  t.test('a user has a hundred sessions at most; the one used longest ago makes room', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql);
    const sessions: StartedSession[] = [];
    for (let n = 0; n < 101; n += 1) sessions.push(await start(sql, userId, NOW + n));
    const ids = (await listSessions(sql, { userId, sessionId: null }, NOW)).map(({ id }) => id);
    t.same(
      ids,
      sessions
        .slice(1)
        .map(({ sessionId }) => sessionId)
        .reverse(),
    );
  });

  t.test('a refresh token works once; shown again it ends the session and what came of it', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql);
    const { sessionId, refreshToken } = await start(sql, userId);
    const [row] = await sql`SELECT r::text AS whole FROM refresh_tokens r`;
    t.notMatch(String(row?.['whole']), refreshToken, 'only its hash is stored');
    const second = await refresh(sql, refreshToken);
    t.match(second, { outcome: 'refreshed', sessionId, user: { id: userId, email: 'ada@example.com', plan: 'FREE' } });
    const third = tokenOf(await refresh(sql, tokenOf(second)));
    await waitMinute(sql);
    t.same(await refresh(sql, refreshToken), { outcome: 'reused', userId, sessionId });
    t.equal(await findSession(sql, { userId, sessionId }, NOW), null);
    t.same(await refresh(sql, third), { outcome: 'unknown' });
    for (const token of ['', 'x', '='.repeat(43), 'A'.repeat(43)]) {
      t.same(await refresh(sql, token), { outcome: 'unknown' }, token);
    }
  });

  t.test('the same refresh again, by its key, has the same token until that is used, for an hour', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql);
    const { sessionId, refreshToken } = await start(sql, userId);
    const once = (token: string, key: string | null) => refresh(sql, token, NOW, key);
    const second = tokenOf(await once(refreshToken, 'a key of the page'));
    t.match(second, /^[\w-]{43}$/);
    await waitMinute(sql);
    // Also at the same moment: the one before it is still under way.
    const again = await Promise.all([1, 2].map(() => once(refreshToken, 'a key of the page')));
    t.strictSame(again.map(tokenOf), [second, second]);
    const third = tokenOf(await once(second, 'another key of it'));
    await waitMinute(sql);
    t.same(
      await once(refreshToken, 'a key of the page'),
      { outcome: 'reused', userId, sessionId },
      'its answer was there',
    );
    t.same(await once(third, null), { outcome: 'unknown' });
    for (const key of ['a guess of a thief', null]) {
      const stolen = await start(sql, userId);
      await once(stolen.refreshToken, 'a key of the page');
      await waitMinute(sql);
      t.match(await once(stolen.refreshToken, key), { outcome: 'reused' }, String(key));
      t.match(await once(stolen.refreshToken, 'a key of the page'), { outcome: 'unknown' });
    }
    const late = await start(sql, userId);
    await once(late.refreshToken, 'a key of the page');
    await sql`UPDATE refresh_tokens SET used_at = used_at - interval '61 minutes'`;
    t.match(await once(late.refreshToken, 'a key of the page'), { outcome: 'reused' });
    const without = await start(sql, userId);
    await once(without.refreshToken, null);
    await waitMinute(sql);
    t.match(await once(without.refreshToken, 'a key of the page'), { outcome: 'reused' }, 'the first one had none');
  });

  t.test('a session that is refreshed without end keeps its last three thousand used tokens', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const { sessionId, refreshToken } = await start(sql, await newUser(sql));
    await sql`
      INSERT INTO refresh_tokens (hash, session_id, expires_at, used_at)
      SELECT sha256(n::text::bytea), ${sessionId}, ${new Date(NOW + DAY)}, now() - make_interval(secs => n)
      FROM generate_series(1, 3005) n`;
    const next = tokenOf(await refresh(sql, refreshToken));
    const [row] = await sql`
      SELECT count(used_at)::int AS used, count(*)::int AS whole,
        bool_or(hash = sha256('2999')) AS newer, bool_or(hash = sha256('3000')) AS older FROM refresh_tokens`;
    t.same(row, { used: 3000, whole: 3001, newer: true, older: false });
    await waitMinute(sql);
    t.equal((await refresh(sql, refreshToken)).outcome, 'reused');
    t.same(await refresh(sql, next), { outcome: 'unknown' });
  });

  t.test('of fifty requests with one token at the same time one succeeds, and the session lives', async (t) => {
    const target = await store.target(t);
    const { sql } = await open(t, target);
    await makeTransactionsRepeatable(sql);
    const nodes = await Promise.all([open(t, target), open(t, target)]);
    const userId = await newUser(sql);
    const { refreshToken } = await start(sql, userId);
    const arrivedAt = performance.now();
    const outcomes = await Promise.all(
      Array.from({ length: 25 }, () =>
        nodes.map((node) => refreshSession(node.sql, refreshToken, { nowMs: NOW, arrivedAt, key: null })),
      ).flat(),
    );
    const refreshed = outcomes.filter(({ outcome }) => outcome === 'refreshed');
    t.equal(refreshed.length, 1);
    t.equal(outcomes.filter(({ outcome }) => outcome === 'raced').length, 49);
    t.equal((await refresh(sql, refreshed.map(tokenOf).join())).outcome, 'refreshed');
    await waitMinute(sql);
    t.equal((await refresh(sql, refreshToken)).outcome, 'reused', 'a request that comes later is no race');
  });

  t.test('a session that is ended while it is refreshed mints nothing that works', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const [one, other] = await Promise.all([open(t, target), open(t, target)]);
    const userId = await newUser(one.sql);
    const counts: Record<string, number> = {};
    for (let round = 0; round < 100; round += 1) {
      const { refreshToken, sessionId } = await start(one.sql, userId);
      const ending = async (): Promise<unknown> =>
        round % 4 < 2 ? await endSessions(other.sql, userId, null) : await endSession(other.sql, userId, sessionId);
      const refreshing = (): Promise<Refresh> => refresh(one.sql, refreshToken);
      const result =
        round % 2 === 0
          ? (await Promise.all([refreshing(), ending()]))[0]
          : (await Promise.all([ending(), refreshing()]))[1];
      counts[result.outcome] = (counts[result.outcome] ?? 0) + 1;
      t.same(await listSessions(one.sql, { userId, sessionId: null }, NOW), []);
      if (result.outcome === 'refreshed') {
        t.same(await refresh(one.sql, result.refreshToken), { outcome: 'unknown' });
      }
    }
    t.comment(counts);
  });

  t.test('a sign-in beside "end all" either lives whole or is ended whole', async (t) => {
    const target = await store.target(t);
    await makeTransactionsRepeatable((await open(t, target)).sql);
    const [one, other] = await Promise.all([open(t, target), open(t, target)]);
    const userId = await newUser(one.sql);
    for (let round = 0; round < 50; round += 1) {
      const before = await start(one.sql, userId);
      const [fresh] = await Promise.all([start(one.sql, userId), endSessions(other.sql, userId, null)]);
      t.equal(await findSession(one.sql, { userId, ...before }, NOW), null);
      const lives = (await findSession(one.sql, { userId, ...fresh }, NOW)) !== null;
      t.equal((await refresh(one.sql, fresh.refreshToken)).outcome, lives ? 'refreshed' : 'unknown');
    }
  });

  t.test('a token and its session end after 30 days without use, and after 90 in any case', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql);
    const idle = await start(sql, userId);
    t.equal((await refresh(sql, idle.refreshToken, NOW + REFRESH_TOKEN_MS)).outcome, 'unknown');
    t.equal(await findSession(sql, { userId, ...idle }, NOW + REFRESH_TOKEN_MS), null);

    const used = await start(sql, userId);
    let token = used.refreshToken;
    for (const days of [29, 58, 87]) token = tokenOf(await refresh(sql, token, NOW + days * DAY));
    t.not(await findSession(sql, { userId, ...used }, NOW + 90 * DAY - 1), null);
    t.equal((await refresh(sql, token, NOW + 90 * DAY)).outcome, 'unknown');
    t.equal(await findSession(sql, { userId, ...used }, NOW + 90 * DAY), null);

    t.equal(await sweepSessions(sql, NOW), 0);
    await sweepSessions(sql, NOW + 90 * DAY);
    t.same(
      [
        ...(await sql`SELECT (SELECT count(*)::int FROM sessions) AS s, (SELECT count(*)::int FROM refresh_tokens) AS r`),
      ],
      [{ s: 0, r: 0 }],
    );
  });

  t.test('a refresh token, also a used one, says whose session it is of, until that is ended', async (t) => {
    const { sql } = await open(t, await store.target(t));
    const userId = await newUser(sql);
    const { refreshToken, sessionId } = await start(sql, userId);
    await refresh(sql, refreshToken);
    t.strictSame(await ownerOfToken(sql, refreshToken), { userId, sessionId });
    await endSession(sql, userId, sessionId);
    t.equal(await ownerOfToken(sql, refreshToken), null);
    t.equal(await ownerOfToken(sql, 'nonsense'), null);
  });
});
