// Accepted scans that nobody will do: those of a node that is gone, and of one that has lost its disk. They fail with the reason, and their units come back.
import t from 'tap';
import { v7 as uuidv7 } from 'uuid';
import { openPostgres } from '../../src/store/postgres.js';
import { scanById } from '../fixtures/async-scans.js';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

t.test('what a node has accepted that is gone is failed by another one, once', async (t) => {
  const [postgres, redis] = [await startPostgres(), await startRedis()];
  const url = await postgres.database();
  const env = { DATABASE_URL: url, REDIS_URL: redis.url };
  const one = await startServer({ env });
  const { sql, close } = await openPostgres({ kind: 'url', url });
  t.teardown(async () => {
    await close();
    await Promise.all([one.stop(), postgres.stop(), redis.stop()]);
  });
  await enoughOfTheHour(60_000);
  for (let taken = 0; taken < 3; taken += 1) t.equal((await upload(one.url, `${taken}`)).status, 200);
  const before = await unitsLeft(one.url);

  const [user] = await sql<{ id: string; key: string }[]>`SELECT u.id, k.id AS key FROM users u, api_keys k`;
  const window = Math.floor(Date.now() / 3_600_000) * 3600;
  const add = async (node: string, ageMs: number): Promise<string> => {
    const id = uuidv7({ msecs: Date.now() - ageMs });
    await sql`
      INSERT INTO pending_scans (id, user_id, key_id, node_id, filename, size_bytes, sha256, env, window_start)
      VALUES (${id}, ${user?.id ?? ''}, ${user?.key ?? ''}, ${node}, 'a.bin', 1, decode(repeat('00', 32), 'hex'), 'TEST', ${window})`;
    return id;
  };
  const [gone, away, back] = [uuidv7(), uuidv7(), uuidv7()];
  await sql`
    INSERT INTO pending_nodes VALUES (${gone}, now() - interval '61 minutes'), (${away}, now() - interval '59 minutes'),
      (${back}, now() - interval '61 minutes')`;
  const ofGone = await add(gone, 0);
  const ofAway = await add(away, 0);
  const ofBack = await add(back, 0);
  const seen = async (): Promise<{ node_id: string; at: string } | undefined> => {
    const [node] = await sql<
      { node_id: string; at: string }[]
    >`SELECT node_id, seen_at::text AS at FROM pending_nodes WHERE seen_at > now() - interval '5 minutes'`;
    return node;
  };
  const own = await seen();
  const lost = await add(own?.node_id ?? '', 660_000);
  // A start looks at once. This node's own scan has no content on its disk.
  await startServer({ t, env, directory: one.directory });
  // As after an hour without a database: who lives says so as soon as it is back, and others have looked before.
  await until(async () => (await seen())?.at !== own?.at);
  await sql`UPDATE pending_nodes SET seen_at = now() WHERE node_id = ${back}`;
  const failed = await scanById(one.url, ofGone, { wait: 60 });
  t.match(failed.body, {
    state: 'failed',
    status: '503',
    error: 'The node that had accepted the scan is gone',
    infected: null,
  });
  const ofLost = await scanById(one.url, lost, { wait: 60 });
  t.match(ofLost.body, { state: 'failed', status: '503', error: 'The content is lost' });
  for (const id of [ofAway, ofBack]) t.match((await scanById(one.url, id)).body, { state: 'queued' });
  await until(async () => (await unitsLeft(one.url)) === before + 2);
  const [rows] = await sql<{ count: number }[]>`SELECT count(*)::int AS count FROM scans WHERE status = 503`;
  t.equal(rows?.count, 2);
});
