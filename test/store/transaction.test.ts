// Transactions over a real Postgres, with as many queries beside them as there can be: what is acknowledged is stored, what fails
// leaves nothing, and no connection is left inside a transaction.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import postgres from 'postgres';
import t from 'tap';
import { openPostgres } from '../../src/store/postgres.js';
import { createConnections, createSql } from '../../src/store/queries.js';
import { startPostgres } from '../fixtures/postgres.js';
import { until } from '../fixtures/until.js';
import { INSERTS, insertAmidQueries } from './amid-queries.js';

const server = await startPostgres({ t });

async function start(t: Pick<typeof import('tap').default, 'teardown'>) {
  const url = await server.database();
  const store = await openPostgres({ kind: 'url', url });
  const onlooker = postgres(url, { max: 1, connection: { application_name: 'onlooker' } });
  t.teardown(async () => {
    await onlooker.end();
    await store.close();
  });
  await onlooker`CREATE TABLE things (id int PRIMARY KEY)`;
  const open = async () => {
    const rows = await onlooker`
      SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND application_name <> 'onlooker'`;
    return rows.length;
  };
  const stored = async () => (await onlooker`SELECT id FROM things ORDER BY id`).map(({ id }) => Number(id));
  return { url, store, onlooker, open, stored };
}

t.test('arrays come back as they were sent', async (t) => {
  const { store } = await start(t);
  const texts = ['', 'a,b', '"', '\\', '{}', 'NULL', ' x ', 'line\nend', 'ä'];
  const [row] = await store.sql`
    SELECT ${texts}::text[] AS texts, ${[1, -2]}::smallint[] AS small, ${[3]}::bigint[] AS large, ${[0.5]}::double precision[] AS parts,
      ${['00000000-0000-7000-8000-000000000001']}::uuid[] AS ids, ${[]}::text[] AS none, ARRAY['a', NULL] AS gap`;
  t.strictSame(
    { ...row },
    {
      ...{ texts, small: [1, -2], large: ['3'], parts: [0.5], ids: ['00000000-0000-7000-8000-000000000001'] },
      ...{ none: [], gap: ['a', null] },
    },
  );
});

t.test('a new connection asks for no types: where that question fails nobody could catch it', async (t) => {
  const url = new URL(await server.database());
  const { hostname, port } = url;
  const sockets: Socket[] = [];
  let ask: (question: string) => void = () => undefined;
  const asked = new Promise<string>((resolve) => {
    ask = resolve;
  });
  // Between the two: who asks gets no answer.
  const between = createServer((near) => {
    const far = connect(Number(port), hostname);
    sockets.push(near, far);
    far.on('error', () => near.destroy()).pipe(near);
    near
      .on('error', () => far.destroy())
      .on('data', (bytes) => {
        if (bytes.includes('pg_catalog.pg_type')) ask('for types');
        else far.write(bytes);
      });
  }).listen(0, '127.0.0.1');
  await once(between, 'listening');
  url.host = `127.0.0.1:${Object(between.address()).port}`;
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    between.close();
  });
  const read = async () => {
    const store = await openPostgres({ kind: 'url', url: url.href });
    t.teardown(() => store.close());
    return [...(await store.sql`SELECT 1 AS one`)];
  };
  t.strictSame(await Promise.race([read(), asked]), [{ one: 1 }]);
});

t.test('what a transaction has acknowledged survives, whatever is asked beside it', async (t) => {
  const { store, open, stored } = await start(t);
  const ids = await insertAmidQueries(
    (id) => store.sql.transaction('readCommitted', (tx) => tx`INSERT INTO things (id) VALUES (${id})`),
    () => store.sql`SELECT 1`,
  );
  t.equal(ids.length, INSERTS);
  t.equal(await open(), 0, 'no connection is left inside a transaction');
  await store.close();
  t.strictSame(await stored(), ids);
});

t.test('a query that fills the socket is no danger to a transaction either', async (t) => {
  const { store, open, stored } = await start(t);
  const large = 'x'.repeat(4 * 1024 * 1024);
  const ids = Array.from({ length: 30 }, (_, id) => id);
  await Promise.all(
    ids.map(async (id) => {
      await store.sql.transaction('readCommitted', async (tx) => {
        await tx`INSERT INTO things (id) SELECT ${id} WHERE length(${large}) > 0`;
      });
    }),
  );
  t.equal(await open(), 0);
  t.strictSame(await stored(), ids);
});

t.test(
  'what fails is undone: the work, a query that nobody looks at, and a commit that Postgres refuses',
  async (t) => {
    const { store, onlooker, open, stored } = await start(t);
    const { sql } = store;
    await onlooker`ALTER TABLE things ADD CONSTRAINT late UNIQUE (id) DEFERRABLE INITIALLY DEFERRED`;
    const insert = (id: number, then: () => Promise<void>) =>
      sql.transaction('readCommitted', async (tx) => {
        await tx`INSERT INTO things (id) VALUES (${id})`;
        await then();
      });
    await t.rejects(
      insert(1, () => Promise.reject(new Error('no'))),
      { message: 'no' },
    );
    await t.rejects(
      sql.transaction('readCommitted', async (tx) => {
        await tx`INSERT INTO things (id) VALUES (2)`;
        await tx`SELECT 1 / 0`.catch(() => undefined);
        await tx`INSERT INTO things (id) VALUES (3)`.catch(() => undefined);
      }),
      { code: '22012' },
    );
    await t.rejects(
      sql.transaction('readCommitted', async (tx) => {
        await tx`INSERT INTO things (id) VALUES (4)`;
        void tx`SELECT 1 / 0`.catch(() => undefined);
      }),
      { code: '22012' },
    );
    await t.rejects(
      sql.transaction('readOnly', (tx) => tx`INSERT INTO things (id) VALUES (5)`),
      { code: '25006' },
    );
    await onlooker`CREATE TABLE doubles (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)`;
    await t.rejects(
      sql.transaction('readCommitted', async (tx) => {
        await tx`INSERT INTO things (id) VALUES (6)`;
        await tx`INSERT INTO doubles (id) VALUES (1), (1)`;
      }),
      { code: '23505' },
    );
    t.equal(await open(), 0);
    t.strictSame(await stored(), []);
    await insert(7, () => Promise.resolve());
    t.strictSame(await stored(), [7]);
  },
);

t.test(
  'a transaction whose connection ends is undone, and nothing of it is sent over another connection',
  async (t) => {
    const { store, onlooker, open, stored } = await start(t);
    const { sql } = store;
    /** Ends the connection of a transaction while nothing of it is under way, and waits until it has gone. */
    const cut = async (pid: number) => {
      await onlooker`SELECT pg_terminate_backend(${pid})`;
      await until(async () => (await onlooker`SELECT FROM pg_stat_activity WHERE pid = ${pid}`).length === 0);
    };
    await t.rejects(
      sql.transaction('readCommitted', async (tx) => {
        await tx`INSERT INTO things (id) VALUES (1)`;
        const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
        await cut(row?.pid ?? 0);
        await tx`INSERT INTO things (id) VALUES (2)`;
      }),
      { code: /^(CONNECTION_|57P01|ECONNRESET|EPIPE)/ },
    );
    await t.rejects(
      sql.transaction('readCommitted', async (tx) => {
        await tx`INSERT INTO things (id) VALUES (3)`;
        const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
        await cut(row?.pid ?? 0);
      }),
      { code: /^(CONNECTION_|57P01|ECONNRESET|EPIPE)/ },
      'a commit that was never sent is not acknowledged',
    );
    t.equal(await open(), 0);
    t.strictSame(await stored(), []);
    await sql.transaction('readCommitted', (tx) => tx`INSERT INTO things (id) VALUES (4)`);
    t.strictSame(await stored(), [4], 'the next one has a connection that works');
  },
);

t.test('a query that hangs gives its connection up, and the transaction with it', async (t) => {
  const { url, onlooker, stored } = await start(t);
  const open = (onclose: () => void) => postgres(url, { max: 1, max_lifetime: null, onclose });
  const connections = createConnections({ open, size: 1 });
  t.teardown(() => connections.close(0));
  const sql = createSql(
    open(() => undefined),
    connections.lane({ running: 1, spare: 0, waiting: 10, hangMs: 3_000 }),
  );
  await t.rejects(
    sql.transaction('readCommitted', async (tx) => {
      await tx`INSERT INTO things (id) VALUES (1)`;
      await tx`SELECT pg_sleep(600)`;
    }),
    { code: 'NO_ANSWER' },
  );
  await sql`INSERT INTO things (id) VALUES (2)`;
  t.strictSame(await stored(), [2]);
  await onlooker`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()`;
});

t.test(
  "the driver's own transactions lose what they acknowledge, or the process: nothing in src uses them",
  async (t) => {
    const { url, open, stored } = await start(t);
    const child = spawnSync(process.execPath, [join(import.meta.dirname, 'plain-begin.js'), url], { encoding: 'utf8' });
    const acknowledged = child.stdout.split('\n').filter(Boolean).map(Number);
    const isWhole = child.status === 0 && acknowledged.length === INSERTS && (await stored()).length === INSERTS;
    t.notOk(isWhole, `the driver is mended: transaction.ts may use its own transactions (${child.stderr})`);
    t.ok(await until(async () => (await open()) === 0), 'its connections went with it');

    const source = join(import.meta.dirname, '../../../src');
    const paths = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
    t.ok(paths.length > 100);
    for (const path of paths) {
      const code = readFileSync(join(source, path), 'utf8').replace(/^\s*(\/\/|\*|\/\*).*$/gm, '');
      t.notMatch(code, /\b(sql|tx|driver|template)\s*\.(begin|reserve|savepoint)\b/, path);
      // embedded/server.ts asks one question over one connection of its own, before there are others.
      if (!/^store\/(postgres|connections|transaction|queries|embedded\/server)\.ts$/.test(path))
        t.notMatch(code, /from 'postgres'/, path);
    }
  },
);
