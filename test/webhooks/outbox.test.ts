// The outbox, in both stores: shared by nodes, in order, with its pauses, endpoints that hang apart from those that don't, and switched off after three days.
import t from 'tap';
import { v7 as uuidv7, validate, version } from 'uuid';
import type { Posts } from '../../src/download/downloads.js';
import { Failure } from '../../src/errors.js';
import { openPostgres, type Postgres } from '../../src/store/postgres.js';
import {
  createDeliveries,
  createEndpoints,
  createOutboxLook,
  EVENTS,
  PAUSES_SECONDS,
} from '../../src/webhooks/deliveries.js';
import { Outbox, type SenderOptions } from '../../src/webhooks/sender.js';
import { onEachStore, open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';

const KEY = Buffer.alloc(32, 7);

const BURST = 2_000;

function partsOf({ requests, sql }: Postgres) {
  const deliveries = createDeliveries(requests('webhooks'), requests);
  return { sql, deliveries, endpoints: createEndpoints(requests, KEY) };
}

type Parts = ReturnType<typeof partsOf>;

async function makeUser({ sql }: Parts): Promise<string> {
  const id = uuidv7();
  await sql`INSERT INTO users (id, email, name, password_hash, plan) VALUES (${id}, ${`${id}@example.com`}, 'A', 'x', 'FREE')`;
  return id;
}

async function makeEndpoint({ endpoints }: Parts, userId: string, url: string): Promise<string> {
  const made = await endpoints.create(userId, url, EVENTS);
  return made?.id ?? '';
}

async function put(
  { sql }: Parts,
  userId: string,
  webhookId: string,
  count: number,
  event = 'scan.completed',
): Promise<void> {
  await sql`
    INSERT INTO webhook_deliveries (webhook_id, user_id, scan_id, event)
    SELECT ${webhookId}, ${userId}, gen_random_uuid(), ${event} FROM generate_series(1, ${count})`;
}

function send(
  { deliveries, endpoints }: Parts,
  posts: Pick<Posts, 'send'>,
  off: string[] = [],
  others: Partial<SenderOptions> = {},
): Outbox {
  return new Outbox({
    deliveries,
    secrets: endpoints.secrets,
    posts: { check: () => undefined, ...posts },
    bodyOf: async (_userId, { id }) => JSON.stringify({ id }),
    onProblem: (problem) => t.fail(problem),
    onSwitchedOff: (webhookId) => off.push(webhookId),
    ...others,
  });
}

onEachStore(async (t, store) => {
  const postgres = await openPostgres(await store.target(t));
  const parts = partsOf(postgres);
  const { sql, deliveries, endpoints } = parts;
  t.teardown(() => postgres.close());

  t.test('several senders share what waits: each is sent once, all of it', async (t) => {
    const user = await makeUser(parts);
    const ids = await Promise.all(
      Array.from({ length: 4 }, (_, index) => makeEndpoint(parts, user, `http://${index}.example/`)),
    );
    for (const id of ids) await put(parts, user, id, 25);
    const sent: string[] = [];
    const posts = {
      async send(_url: string, { headers }: { headers: Readonly<Record<string, string>> }) {
        sent.push(headers['webhook-id'] ?? '');
        return 200;
      },
    };
    const senders = [send(parts, posts), send(parts, posts), send(parts, posts)];
    for (const sender of senders) sender.hurry();
    await until(() => sent.length >= 100);
    for (const sender of senders) await sender.stop();
    t.equal(new Set(sent).size, 100);
    t.equal(sent.length, 100);
    const madeId = sent[0]?.replace('msg_', '') ?? '';
    t.ok(validate(madeId) && version(madeId) === 7, madeId);
    t.ok(Math.abs(Number.parseInt(madeId.replace('-', '').slice(0, 12), 16) - Date.now()) < 60_000, 'of now');
  });

  t.test('a receiver that hangs, with much that waits, keeps no other account waiting', async (t) => {
    const [slow, quick] = [await makeUser(parts), await makeUser(parts)];
    for (let count = 0; count < 10; count += 1) {
      await put(parts, slow, await makeEndpoint(parts, slow, 'http://slow.example/'), 500);
    }
    const other = await makeEndpoint(parts, quick, 'http://quick.example/');
    let hanging = 0;
    let most = 0;
    let got = 0;
    let letGo: () => void = () => undefined;
    const isOver = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const sender = send(parts, {
      async send(url) {
        if (url.includes('quick')) {
          got += 1;
          return 204;
        }
        hanging += 1;
        most = Math.max(most, hanging);
        await isOver;
        hanging -= 1;
        throw new Failure('downloadFailed', 'the origin took too long');
      },
    });
    sender.hurry();
    await until(() => hanging === 40);
    await put(parts, quick, other, 100);
    sender.hurry();
    await until(() => got === 100);
    t.equal(most, 40, 'four of each endpoint');
    letGo();
    await until(() => hanging === 0);
    const [waiting] = await until(async () => {
      const rows = await sql<{ count: number; attempts: number }[]>`
        SELECT count(*)::int AS count, sum(attempts)::int AS attempts FROM webhook_deliveries WHERE user_id = ${slow} AND state = 'waiting'`;
      return (rows[0]?.attempts ?? 0) >= 40 && rows;
    });
    t.equal(waiting?.count, 5_000);
    await sender.stop();
    await sql`DELETE FROM webhooks WHERE user_id = ${slow}`;
  });

  t.test('an attempt that fails comes again after its pause, until there is none left', async (t) => {
    const user = await makeUser(parts);
    const id = await makeEndpoint(parts, user, 'http://down.example/');
    await put(parts, user, id, 1);
    for (const [attempts, pause] of [...PAUSES_SECONDS, null].entries()) {
      const [due] = await deliveries.due(id, 10);
      t.equal(due?.attempts, attempts);
      if (due === undefined) return;
      await deliveries.attempted(id, due, {
        isDelivered: false,
        status: 500,
        error: 'The receiver answered with status 500',
      });
      t.equal((await deliveries.due(id, 10)).length, 0, 'not at once');
      const [row] = await sql<{ state: string; pause: number }[]>`
        SELECT state, extract(epoch FROM next_at - last_update)::int AS pause FROM webhook_deliveries WHERE webhook_id = ${id}`;
      t.strictSame({ ...row }, pause === null ? { state: 'failed', pause: 0 } : { state: 'waiting', pause });
      await sql`UPDATE webhook_deliveries SET next_at = now() WHERE webhook_id = ${id}`;
    }
    const [listed] = await deliveries.list(user, id, { state: 'failed', before: null, limit: 10 });
    t.match(listed, { attempts: 8, status: 500 });
    t.notOk(await deliveries.sendAgain(await makeUser(parts), id, listed?.id ?? ''), 'not by another account');
    t.ok(await deliveries.sendAgain(user, id, listed?.id ?? ''));
    t.match(await deliveries.due(id, 10), [{ attempts: 0 }]);
  });

  t.test(
    'where something goes wrong on our side, the endpoint rests, others are sent to, and no attempt is counted',
    async (t) => {
      const user = await makeUser(parts);
      const [broken, other] = [
        await makeEndpoint(parts, user, 'http://broken.example/'),
        await makeEndpoint(parts, user, 'http://other.example/'),
      ];
      await put(parts, user, broken, 8);
      const rows = await sql<{ id: string }[]>`SELECT id FROM webhook_deliveries WHERE webhook_id = ${broken}`;
      const ofBroken = new Set(rows.map(({ id }) => id));
      const problems: string[] = [];
      // By endpoint: what the tests before have left is sent as well.
      const sent = { broken: 0, other: 0 };
      let isBroken = true;
      let asked = 0;
      const posts = {
        async send(url: string) {
          if (url.includes('broken')) sent.broken += 1;
          if (url.includes('other')) sent.other += 1;
          return 200;
        },
      };
      const sender = send(parts, posts, [], {
        onProblem: (problem) => problems.push(problem),
        async bodyOf(_userId, { id }) {
          if (!isBroken || !ofBroken.has(id)) return '{}';
          asked += 1;
          throw new TypeError('a bug');
        },
      });
      t.teardown(() => sender.stop());
      sender.hurry();
      await until(() => problems.length > 0);
      for (let round = 1; round <= 20; round += 1) {
        await put(parts, user, other, 1);
        sender.hurry();
        await until(() => sent.other === round);
      }
      t.same(problems, ['a bug']);
      t.ok(asked <= 4, `asked for ${asked} bodies`);
      isBroken = false;
      await sql`UPDATE webhooks SET leased_until = '-infinity' WHERE id = ${broken}`;
      sender.hurry();
      await until(() => sent.broken === 8);
      await sender.stop();
      const [state] = await sql`SELECT sum(attempts)::int AS attempts, count(*)::int AS count FROM webhook_deliveries
      WHERE webhook_id = ${broken} AND state = 'delivered'`;
      t.same(state, { attempts: 8, count: 8 });
    },
  );

  t.test(
    'a webhook that was let go has no lease: of a renewal that comes late, nor since the other question fails',
    async (t) => {
      const user = await makeUser(parts);
      const id = await makeEndpoint(parts, user, 'http://free.example/');
      await put(parts, user, id, 1);
      const isLeased = async (): Promise<boolean> =>
        (await deliveries.lease(1_000, false)).some((each) => each.id === id);
      t.ok(await isLeased());
      await deliveries.renew([id]);
      await deliveries.release(id);
      await deliveries.renew([id]);
      t.ok(await isLeased(), 'what comes next does not wait until a lease of nobody is over');
      t.notOk(await isLeased(), 'one lease at a time');
      await sql`UPDATE webhooks SET leased_until = '-infinity'`;
      const sent: string[] = [];
      const problems: string[] = [];
      const ofOneQuestion = {
        ...deliveries,
        async lease(count: number, isFailing: boolean) {
          if (isFailing) throw new Failure('unavailable', 'the store is busy');
          return await deliveries.lease(count, isFailing);
        },
      };
      const posts = {
        async send(url: string) {
          sent.push(url);
          return 200;
        },
      };
      const onProblem = (problem: string): void => void problems.push(problem);
      const sender = send({ ...parts, deliveries: ofOneQuestion }, posts, [], { onProblem });
      t.teardown(() => sender.stop());
      sender.hurry();
      await until(() => sent.includes('http://free.example/') && problems.length > 0);
    },
  );

  t.test('what is due is found among few rows, also when the database expects that nothing waits', async (t) => {
    const target = await store.target(t);
    const parts = partsOf(await open(t, target));
    const { sql } = parts;
    const user = await makeUser(parts);
    const id = await makeEndpoint(parts, user, 'http://burst.example/');
    await sql`ALTER TABLE webhook_deliveries SET (autovacuum_enabled = false)`;
    await put(parts, user, id, BURST);
    await sql`UPDATE webhook_deliveries SET state = 'delivered'`;
    await sql`VACUUM FULL ANALYZE webhook_deliveries`;
    await put(parts, user, id, BURST);
    const rowsRead = async (): Promise<number> => {
      const [row] = await sql<{ read: number }[]>`
        SELECT (idx_tup_fetch + seq_tup_read)::float8 AS read FROM pg_stat_user_tables WHERE relname = 'webhook_deliveries'`;
      return row?.read ?? 0;
    };
    const readByTen = async (
      work: (deliveries: Parts['deliveries']) => Promise<readonly unknown[]>,
    ): Promise<number> => {
      const before = await rowsRead();
      const own = await openPostgres(target);
      for (let count = 0; count < 10; count += 1) t.equal((await work(partsOf(own).deliveries)).length, 64);
      // A connection says what it has read when it ends. Those of before may say it now, too: a few thousand rows.
      await own.close();
      return (await until(async () => (await rowsRead()) >= before + 640 && (await rowsRead()))) - before;
    };
    t.ok((await readByTen(({ list }) => list(user, id, { state: null, before: null, limit: 64 }))) < 10 * BURST);
    t.ok((await readByTen(({ due }) => due(id, 64))) < 10 * BURST);
  });

  t.test('all attempts of three days have failed: it is switched off, and says so', async (t) => {
    const user = await makeUser(parts);
    const id = await makeEndpoint(parts, user, 'http://gone.example/');
    await put(parts, user, id, 3);
    const off: string[] = [];
    const sender = send(parts, { send: async () => 410 }, off);
    sender.hurry();
    await until(async () => (await endpoints.find(user, id))?.failingSince);
    t.match(await endpoints.find(user, id), { enabled: true, notice: null });
    await sql`
      UPDATE webhooks SET failing_since = now() - interval '73 hours', rests_until = '-infinity' WHERE id = ${id}`;
    await sql`UPDATE webhook_deliveries SET next_at = now() WHERE webhook_id = ${id}`;
    sender.hurry();
    await until(() => off.length > 0);
    await sender.stop();
    t.strictSame(off, [id]);
    t.match(await endpoints.find(user, id), { enabled: false, notice: /three days/ });
    const listed = await deliveries.list(user, id, { state: 'failed', before: null, limit: 10 });
    t.equal(listed.length, 3);
    t.match(listed[0], { error: 'The webhook was switched off' });
    t.match(await endpoints.change(user, id, { enabled: true }), { enabled: true, notice: null, failingSince: null });
  });

  t.test(
    'what a clock that was a day ahead has put off is due when it is set right; pauses and rests stay',
    async (t) => {
      const user = await makeUser(parts);
      const [ahead, resting] = [
        await makeEndpoint(parts, user, 'http://a.example/'),
        await makeEndpoint(parts, user, 'http://b.example/'),
      ];
      await put(parts, user, ahead, 2);
      await put(parts, user, resting, 1);
      const until = (id: string) => sql`SELECT leased_until, rests_until FROM webhooks WHERE id = ${id}`;
      const next = (id: string) => sql`SELECT next_at FROM webhook_deliveries WHERE webhook_id = ${id}`;
      for (const [id, step] of [[ahead, '25 hours'] as const, [resting, '0'] as const]) {
        await sql`
        UPDATE webhooks SET leased_until = now() + ${step}::interval + interval '15 seconds',
          rests_until = now() + ${step}::interval + interval '1 minute' WHERE id = ${id}`;
        await sql`
        UPDATE webhook_deliveries SET next_at = now() + ${step}::interval + interval '12 hours',
          last_update = now() + ${step}::interval WHERE webhook_id = ${id}`;
      }
      const before = [await until(resting), await next(resting)];
      t.equal((await deliveries.due(ahead, 10)).length, 0);
      await deliveries.sweep();
      const leased = await deliveries.lease(100, false);
      t.ok(leased.some(({ id }) => id === ahead));
      t.equal((await deliveries.due(ahead, 10)).length, 2);
      t.strictSame([await until(resting), await next(resting)], before);
      await sql`DELETE FROM webhooks WHERE user_id = ${user}`;
    },
  );

  t.test('what is due is overdue, but not where its receiver fails', async (t) => {
    const user = await makeUser(parts);
    const id = await makeEndpoint(parts, user, 'http://late.example/');
    await sql`DELETE FROM webhook_deliveries`;
    await put(parts, user, id, 2);
    await sql`UPDATE webhook_deliveries SET next_at = now() + interval '1 hour'`;
    t.strictSame({ ...(await createOutboxLook(sql)()) }, { waiting: 2, overdueMs: 0 });
    await sql`UPDATE webhook_deliveries SET next_at = now() - interval '1 hour'`;
    const late = await createOutboxLook(sql)();
    t.equal(late?.waiting, 2);
    t.ok(Number(late?.overdueMs) >= 3_600_000);
    await sql`UPDATE webhooks SET failing_since = now() WHERE id = ${id}`;
    t.strictSame({ ...(await createOutboxLook(sql)()) }, { waiting: 2, overdueMs: 0 });
    await sql`DELETE FROM webhooks WHERE id = ${id}`;
  });

  t.test('secrets are sealed, of their webhook alone, and what is over is swept', async (t) => {
    const user = await makeUser(parts);
    const id = await makeEndpoint(parts, user, 'http://a.example/');
    const [row] = await sql<{ secret: Buffer }[]>`SELECT secret FROM webhooks WHERE id = ${id}`;
    const [secret] = await endpoints.secrets(user, id);
    t.equal(secret?.length, 32);
    t.equal(row?.secret.indexOf(secret ?? Buffer.alloc(1)), -1);
    t.strictSame(await createEndpoints(postgres.requests, Buffer.alloc(32)).secrets(user, id), []);
    const damaged = await makeEndpoint(parts, user, 'http://b.example/');
    await sql`UPDATE webhooks SET secret = '\\x00' WHERE id = ${damaged}`;
    t.strictSame(await endpoints.secrets(user, damaged), []);
    await put(parts, user, id, 4);
    await put(parts, user, uuidv7(), 2);
    const rows = await sql<
      { number: number }[]
    >`SELECT number::int FROM webhook_deliveries WHERE webhook_id = ${id} ORDER BY number`;
    const ages = ['8 days', '6 days', '31 days', '29 days'];
    for (const [index, { number }] of rows.entries()) {
      await sql`
        UPDATE webhook_deliveries SET state = ${index < 2 ? 'delivered' : 'failed'}, last_update = now() - ${ages[index] ?? ''}::interval
        WHERE number = ${number}`;
    }
    // What the suite has left before is a sweep of its own.
    for (let sweeps = 0; sweeps < 3; sweeps += 1) await deliveries.sweep();
    const left = await sql<
      { number: number }[]
    >`SELECT number::int FROM webhook_deliveries WHERE user_id = ${user} ORDER BY number`;
    t.strictSame(
      left.map(({ number }) => number),
      [rows[1]?.number, rows[3]?.number],
    );
  });
});
