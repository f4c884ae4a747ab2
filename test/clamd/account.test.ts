// Whose scans they are: an account that is suspended, restored or removed while clients are there; and who may connect.
import { statSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { mainPath, ownSignaturesDirectory } from '../../src/paths.js';
import { start } from '../fixtures/command.js';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { ask, bytesOf, CLEAN, EMAIL, socketPlace, startOurs, stream } from './client.js';

const SCAN = bytesOf('zINSTREAM\0', stream(CLEAN));
const OK = 'stream: OK\0';
/** Between two scans of one after the other: all cores for them would show no more. */
const PAUSE_MS = 50;

t.test('a suspended or removed account scans nothing, on any node', async (t) => {
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
  t.teardown(() => Promise.all([postgres.stop(), redis.stop()]));
  const env = { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url };
  const places = [socketPlace(), socketPlace()];
  const servers: TestServer[] = [];
  for (const path of places) {
    const settings = { SIGNATURES_DIR: ownSignaturesDirectory, CLAMD_SOCKET: path, CLAMD_ACCOUNT: EMAIL };
    servers.push(await startServer({ env: { ...env, ...settings } }));
  }
  t.teardown(() => Promise.all(servers.map((server) => server.stop())));
  const sluice = async (args: readonly string[], input = ''): Promise<void> => {
    const { code } = await start(t, mainPath, args, { env, cwd: tmpdir(), input }).ended;
    t.equal(code, 0, args.join(' '));
  };
  const everywhere = async (expected: string, name: string): Promise<void> => {
    for (const path of places) t.equal(await ask({ path }, SCAN), expected, name);
  };
  for (const server of servers) {
    await until(() => /"level":40[^\n]*CLAMD_ACCOUNT is no account/.test(server.output()));
  }
  await everywhere('stream: CLAMD_ACCOUNT is no account ERROR\0', 'before it is made');
  await sluice(['user', 'add', EMAIL, '--password-stdin'], 'a sentence that nobody knows');
  // A look at the store holds for a second.
  for (const path of places) await until(async () => (await ask({ path }, SCAN)) === OK);
  await sluice(['user', 'suspend', EMAIL]);
  await everywhere('stream: The account is suspended ERROR\0', 'from the next scan on');
  await sluice(['user', 'restore', EMAIL]);
  for (const path of places) await until(async () => (await ask({ path }, SCAN)) === OK);
  await enoughOfTheHour();
  await sluice(['user', 'set-limit', EMAIL, '1']);
  await everywhere('stream: Hourly scan limit reached ERROR\0', 'another limit');
  for (const server of servers) await server.printed(/"level":40[^\n]*"clamd","reason":"(Hourly scan limit reached)"/);
  await sluice(['user', 'set-limit', EMAIL, 'plan']);
  await everywhere(OK, 'and back');
  await sluice(['user', 'delete', EMAIL, '--yes']);
  for (const path of places) {
    await until(async () => (await ask({ path }, SCAN)) === 'stream: CLAMD_ACCOUNT is no account ERROR\0');
  }
});

t.test('while Postgres is away those that are known scan on', async (t) => {
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
  t.teardown(() => redis.stop());
  const { server, unix } = await startOurs({ DATABASE_URL: await postgres.database(), REDIS_URL: redis.url });
  t.teardown(() => server.stop('SIGKILL'));
  t.equal(await ask(unix, SCAN), OK);
  await postgres.stop();
  const endMs = performance.now() + 3_000;
  while (performance.now() < endMs) {
    t.equal(await ask(unix, SCAN), OK);
    await delay(PAUSE_MS);
  }
});

t.test('who may connect, and what is counted of it', async (t) => {
  const own = Object.values(networkInterfaces())
    .flat()
    .find((each) => each?.family === 'IPv4' && !each.internal)?.address;
  // Without another address than the loopback's there is nothing to be told apart.
  const address = own ?? '127.0.0.2';
  const from = { host: address, localAddress: address };
  // One that this user is a member of: others only root may name.
  const group = process.getgroups?.().at(-1) ?? process.getgid?.() ?? 0;
  const { server, unix, tcp } = await startOurs({
    CLAMD_ALLOW_NETWORKS: `${address}/32,fd00::/8`,
    CLAMD_SOCKET_GROUP: String(group),
    CLAMD_SOCKET_MODE: '600',
  });
  t.teardown(() => server.stop('SIGKILL'));

  t.test('a port for other machines serves those of CLAMD_ALLOW_NETWORKS, and nobody else', async (t) => {
    t.equal(await ask({ ...tcp, ...from }, bytesOf('zPING\0')), 'PONG\0');
    t.equal(await ask(tcp, bytesOf('zPING\0')), 'PONG\0', 'the machine itself');
    t.equal(await ask({ ...tcp, ...from }, bytesOf('zRELOAD\0')), 'COMMAND UNAVAILABLE\0');
    const others = await startOurs({ CLAMD_ALLOW_NETWORKS: '203.0.113.0/24' });
    t.teardown(() => others.server.stop('SIGKILL'));
    const isLoopback = address.startsWith('127.');
    t.equal(await ask({ ...others.tcp, ...from }, bytesOf('zPING\0')), isLoopback ? 'PONG\0' : '');
    t.equal(await others.server.stop(), 0);
  });

  t.test('the socket is of the group that is named, and of none that is not there', async (t) => {
    const { gid, mode } = statSync(unix.path);
    t.equal(mode & 0o777, 0o600);
    t.equal(gid, group);
    await t.rejects(startOurs({ CLAMD_SOCKET_GROUP: 'no-such-group' }), /there is no group no-such-group/);
  });

  t.test('scans by this protocol are counted and logged as such', async (t) => {
    t.equal(await ask(unix, SCAN), OK);
    await server.printed(/"protocol":"(clamd)"/);
    t.equal(await server.metric('sluice_scans_by_protocol_total{protocol="clamd",outcome="clean"}'), 1);
    t.equal(await server.stop(), 0);
  });
});
