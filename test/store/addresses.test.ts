// Where the stores are, as operators write it: UNIX sockets of Postgres, and clusters of Redis behind TLS.
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import postgres from 'postgres';
import t from 'tap';
import { messageOfError } from '../../src/error-text.js';
import { mainPath } from '../../src/paths.js';
import { openPostgres, type Postgres } from '../../src/store/postgres.js';
import { makeCertificate } from '../fixtures/certificate.js';
import { start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { serverPassword, startPostgres } from '../fixtures/postgres.js';
import { type RedisTls, startRedisCluster, startRedisSentinels } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const server = await startPostgres({ t });
const admin = postgres(server.url, { max: 1, onnotice: () => undefined });
t.teardown(() => admin.end());

t.test('a database behind a UNIX socket, in each way that libpq takes', async (t) => {
  const { port, pathname } = new URL(await server.database());
  const login = `postgres:${serverPassword}`;
  const folder = server.socketFolder;
  for (const url of [
    `postgres://${login}@${encodeURIComponent(folder)}:${port}${pathname}`,
    `postgresql://${login}@${pathname}?host=${folder}&port=${port}`,
    `postgres://${login}@:${port}${pathname}?host=${encodeURIComponent(folder)}&application_name=elsewhere`,
  ]) {
    const { sql, close } = await openPostgres({ kind: 'url', url });
    t.strictSame([...(await sql`SELECT inet_client_addr() AS address`)], [{ address: null }], url);
    await close();
  }
});

t.test('a database that can not hold all names is refused, and one that is in use is warned of', async (t) => {
  const urlOf = async (name: string, encoding: string): Promise<string> => {
    await admin.unsafe(`CREATE DATABASE ${name} ENCODING '${encoding}' TEMPLATE template0 LOCALE 'C'`);
    return server.url.replace(/postgres$/, name);
  };
  const said: unknown[] = [];
  const log = { info: () => undefined, warn: (...line: unknown[]) => void said.push(line) };
  const latin = await urlOf('latin', 'LATIN1');
  await t.rejects(openPostgres({ kind: 'url', url: latin, log }), {
    name: 'StoreError',
    message:
      /^Postgres at \S+\/latin has the encoding LATIN1, which .*: take one that was made by CREATE DATABASE .* ENCODING 'UTF8'/,
  });
  const inUse = postgres(latin, { max: 1 });
  t.teardown(() => inUse.end());
  await inUse`CREATE TABLE schema_migrations (version integer PRIMARY KEY, name text, checksum text, applied_at timestamptz DEFAULT now())`;
  for (const url of [latin, await urlOf('usual', 'UTF8')]) {
    const { close } = await openPostgres({ kind: 'url', url, log });
    await close();
  }
  t.match(said, [[{ reason: /has the encoding LATIN1/, todo: /sluice backup/ }, 'the history may come to a halt']]);
  t.equal(said.length, 1);
});

t.test('a role of few connections does with those, and one of too few says what bounds them', async (t) => {
  await admin`CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 3`;
  await admin`CREATE DATABASE few OWNER few`;
  const url = `postgres://few:few@127.0.0.1:${server.port}/few`;
  const said: unknown[] = [];
  const log = { info: () => undefined, warn: (...line: unknown[]) => void said.push(line) };
  const askAtOnce = ({ sql, admission, requests }: Postgres) => {
    const lanes = [sql, admission, requests('one'), requests('another')];
    return Promise.allSettled(Array.from({ length: 15 }, () => lanes.map((lane) => lane`SELECT 1`)).flat());
  };
  const isAnswered = ({ status }: { status: string }) => status === 'fulfilled';

  const three = await openPostgres({ kind: 'url', url, log });
  t.ok((await askAtOnce(three)).every(isAnswered));
  const reason = /^too many connections for role "few": a server process takes up to ten, .*ALTER ROLE/;
  t.match(said, [[{ reason, connections: 9 }, /takes fewer connections/]]);
  t.equal(said.length, 1);
  await three.close();

  await admin`ALTER ROLE few CONNECTION LIMIT 2`;
  const two = await openPostgres({ kind: 'url', url });
  t.notOk((await askAtOnce(two)).every(isAnswered));
  // As PgBouncer says it.
  const full = `DO $$ BEGIN RAISE 'no more connections allowed (max_client_conn)' USING ERRCODE = '08P01'; END $$`;
  t.match(await admin.unsafe(full).catch(messageOfError), /max_client_conn\): a server process takes up to ten/);
  await two.close();
  await admin`ALTER ROLE few CONNECTION LIMIT 0`;
  const env = { DATABASE_URL: url, PORT: '0', DATA_DIR: temporaryFolder(t), SCAN_THREADS: '1' };
  const running = start(t, mainPath, ['serve', '--no-supervisor'], { env });
  t.match(await running.line('the service could not start'), /a server process takes up to ten/);
  t.equal((await running.ended).code, 69);
});

t.test('where a pooler loses what we have prepared nothing is prepared any more', async (t) => {
  const said: unknown[] = [];
  const log = { info: () => undefined, warn: (...line: unknown[]) => void said.push(line) };
  const { requests, close } = await openPostgres({ kind: 'url', url: await server.database(), log });
  t.teardown(close);
  const sql = requests('one');
  const prepared = async () =>
    (await sql`SELECT count(*)::int AS n FROM pg_prepared_statements WHERE ${true}`)[0]?.['n'];
  t.ok(await prepared());
  for (const code of ['26000', '42P05']) {
    const lost = `DO $$ BEGIN RAISE 'prepared statement' USING ERRCODE = '${code}'; END $$`;
    await t.rejects(Promise.resolve(sql.unsafe(lost)), { code: 'unavailable', reason: 'storeDown' });
  }
  const all = await Promise.all(Array.from({ length: 10 }, prepared));
  t.same(all, Array(10).fill(0));
  t.match(said, [[{ todo: /prepare=false/ }, /a pooler/]]);
  t.equal(said.length, 1);
});

t.test('a socket that is not there is named, the password is not', async (t) => {
  const error: unknown = await openPostgres({ kind: 'url', url: 'postgres://me:secret@/sluice?host=/none' }).catch(
    (e) => e,
  );
  t.match(error, { name: 'StoreError', message: /^Postgres at \/none:5432\/sluice can't be used: .*ENOENT/ });
  t.notMatch(String(error), 'secret');
});

t.test('a proxy without a server behind it ends a query at once, and is not asked again and again', async (t) => {
  let connections = 0;
  const proxy = createServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined).end();
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  t.teardown(() => proxy.close());
  const { port } = proxy.address() as AddressInfo;
  await t.rejects(openPostgres({ kind: 'url', url: `postgres://me@127.0.0.1:${port}/sluice` }), {
    name: 'StoreError',
    message: /The connection was closed before Postgres answered$/,
  });
  t.equal(connections, 1);
});

/** Of an authority that nobody knows, for 127.0.0.1. */
function certificates(t: Parameters<typeof temporaryFolder>[0]): RedisTls {
  const folder = temporaryFolder(t);
  const authority = makeCertificate({ name: 'test authority', isAuthority: true });
  const { cert, key } = makeCertificate({ name: 'redis', addresses: ['127.0.0.1'], issuer: authority });
  const place = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  return { cert: place('cert.pem', cert), key: place('key.pem', key), ca: place('ca.pem', authority.cert) };
}

t.test('the service on Sentinels and servers that take TLS alone', async (t) => {
  const tls = certificates(t);
  const redis = await startRedisSentinels({ t, tls });
  const postgres = await startPostgres({ t });
  const env = { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url, NODE_EXTRA_CA_CERTS: tls.ca };
  const server = await startServer({ t, env });
  t.match(await upload(server.url, 'harmless'), { status: 200, body: { infected: false } });
  t.notMatch(server.output(), /Redis is away/);
  const [master] = redis.members;
  t.equal((await master?.client.keys('sluice:{u:*'))?.length, 1, 'the unit was counted by the master');
  // Who listens is told of the next master.
  for (const { client } of redis.sentinels) {
    await until(async () => / name=sluice .* sub=1 /.test(String(await client.client('LIST'))));
  }
});

t.test('the service on a socket and on a cluster that takes TLS alone, one of whose nodes is named', async (t) => {
  const tls = certificates(t);
  const cluster = await startRedisCluster({ t, tls });
  const postgres = await startPostgres({ t });
  const { port, pathname } = new URL(await postgres.database());
  const env = {
    DATABASE_URL: `postgres://postgres:${serverPassword}@${pathname}?host=${postgres.socketFolder}&port=${port}`,
    REDIS_URL: String(cluster.masters[0]?.url).replace('rediss:', 'rediss+cluster:'),
    NODE_EXTRA_CA_CERTS: tls.ca,
  };
  const server = await startServer({ t, env });
  t.match(await upload(server.url, 'harmless'), { status: 200, body: { infected: false } });
  t.notMatch(server.output(), /Redis is away/);
  const keys = await Promise.all(cluster.masters.map(({ client }) => client.keys('sluice:{u:*')));
  t.equal(keys.flat().length, 1, 'the unit was counted in the cluster');
});
