// The stores of deploy/: its scripts, run by sh over real servers with its settings, make a Postgres with a standby that takes over, and a Redis Cluster whose members find each other again.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import postgres from 'postgres';
import t, { type Test } from 'tap';
import { databaseProxyOf } from '../cluster-run/haproxy.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { newestBinaries, serverAccount } from '../fixtures/postgres.js';
import { deployPath } from '../fixtures/proxies.js';
import { redisPassword } from '../fixtures/redis.js';
import { until } from '../fixtures/until.js';

const run = promisify(execFile);
const PASSWORD = 'not-to-be-shown';

async function end(child: ChildProcess | null, signal: NodeJS.Signals): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill(signal);
  await gone;
}

/** One of the two, as its container has it, with an address of loopback. */
class Half {
  readonly host: string;
  readonly #folder: string;
  readonly #port: number;
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess | null;
  #said: string;

  constructor(folder: string, port: number, { host, peer, isFirst }: { host: string; peer: string; isFirst: boolean }) {
    this.host = host;
    this.#folder = join(folder, host);
    this.#port = port;
    this.#child = null;
    this.#said = '';
    mkdirSync(this.#folder);
    const account = serverAccount();
    if (account !== null) chownSync(this.#folder, account.uid, account.gid);
    this.#env = {
      PATH: `${newestBinaries()}:${process.env['PATH']}`,
      PGDATA: join(this.#folder, 'data'),
      PGHOST: this.#folder,
      PGPORT: String(port),
      PGPASSWORD: PASSWORD,
      PEER: peer,
      CHECKED_FROM: '127.0.0.1/32',
      LOOK_SECONDS: '0.2',
      ...(isFirst ? { FIRST: 'yes' } : {}),
    };
  }

  start(): void {
    const settings = ['-c', `listen_addresses=${this.host}`, '-c', `unix_socket_directories=${this.#folder}`];
    this.#said = '';
    this.#child = spawn('sh', [this.#script, 'serve', ...settings, '-c', 'fsync=off'], {
      ...serverAccount(),
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#said += text;
      });
  }

  get #script(): string {
    return join(this.#folder, '..', 'postgres-pair.sh');
  }

  async says(text: string): Promise<void> {
    await until(() => {
      if (this.#child !== null && this.#child.exitCode !== null) throw new Error(`${this.host} ended: ${this.#said}`);
      return this.#said.includes(text);
    });
  }

  /** As `docker compose exec` does. */
  command(word: string): Promise<unknown> {
    return run('sh', [this.#script, word], { ...serverAccount(), env: this.#env });
  }

  async end(): Promise<void> {
    await end(this.#child, 'SIGQUIT');
  }

  async ask(query: string): Promise<readonly Record<string, unknown>[]> {
    return await askAt(this.host, this.#port, query);
  }

  /** Commits of it wait for the other one. */
  async hasStandby(): Promise<void> {
    const query = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
    await until(async () => (await this.ask(query).catch(() => []))[0]?.['sync_state'] === 'sync');
  }
}

async function askAt(host: string, port: number, query: string): Promise<readonly Record<string, unknown>[]> {
  const sql = postgres({ host, port, user: 'sluice', password: PASSWORD, database: 'sluice', max: 1 });
  try {
    return await sql.unsafe(query);
  } finally {
    await sql.end();
  }
}

/** Where also the server's account may go. */
function pairFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pair-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const account = serverAccount();
  if (account !== null) chownSync(folder, account.uid, account.gid);
  for (const file of ['postgres-pair.sh', 'postgres-pair.conf']) copyFileSync(deployPath(file), join(folder, file));
  return folder;
}

t.test('Postgres: a standby is made, takes over, and the old primary comes back as its standby', async (t) => {
  const folder = pairFolder(t);
  const port = await freePort();
  const [hostOne, hostTwo] = ['127.0.0.21', '127.0.0.22'];
  const one = new Half(folder, port, { host: hostOne, peer: hostTwo, isFirst: true });
  const two = new Half(folder, port, { host: hostTwo, peer: hostOne, isFirst: false });
  t.teardown(() => Promise.all([one.end(), two.end()]));
  two.start();
  await two.says('Waits for the other one');
  one.start();
  await one.hasStandby();
  const proxy = await databaseProxyOf(folder, [`${hostOne}:${port}`, `${hostTwo}:${port}`]);
  t.teardown(() => proxy.kill());
  const write = (row: number): Promise<unknown> =>
    until(() =>
      askAt('127.0.0.1', proxy.port, `INSERT INTO kept VALUES (${row})`).then(
        () => true,
        () => false,
      ),
    );
  await until(() =>
    askAt('127.0.0.1', proxy.port, 'CREATE TABLE kept (row int)').then(
      () => true,
      () => false,
    ),
  );
  await write(1);
  t.match(await one.ask('SHOW wal_keep_size'), [{ wal_keep_size: '512MB' }]);
  await t.rejects(two.command('promote'), { code: 1, stderr: /end it first/ }, 'not beside a primary');

  await one.end();
  await two.command('promote');
  await write(2);
  one.start();
  await two.hasStandby();
  await write(3);
  const rows = [{ row: 1 }, { row: 2 }, { row: 3 }];
  t.strictSame([...(await one.ask('SELECT row FROM kept ORDER BY row'))], rows);

  await two.end();
  await one.end();
  two.start();
  await two.says('Waits for the other one');
  await t.rejects(two.ask('SELECT 1'), { code: 'ECONNREFUSED' }, 'the other one may have been promoted');
  one.start();
  await two.hasStandby();

  await one.end();
  await write(4);
  t.match(await two.ask('SHOW synchronous_standby_names'), [{ synchronous_standby_names: '' }]);
  await two.end();
  two.start();
  await write(5);
  one.start();
  await two.hasStandby();
  await two.end();
  await one.end();
  await two.command('alone');
  two.start();
  await write(6);
  t.match(await two.ask('SELECT count(*)::int FROM kept'), [{ count: 6 }]);
});

/** Of the cluster, as its container has it; another address is that of a container that was made again. */
class Member {
  host: string;
  readonly #folder: string;
  readonly #port: number;
  #child: ChildProcess | null;

  constructor(folder: string, port: number, host: string) {
    this.host = host;
    this.#port = port;
    this.#folder = join(folder, host);
    this.#child = null;
    mkdirSync(this.#folder);
  }

  get place(): string {
    return `${this.host}:${this.#port}`;
  }

  start(): void {
    const secrets = ['--requirepass', redisPassword, '--masterauth', redisPassword];
    const place = ['--port', String(this.#port), '--bind', this.host, '--bind-source-addr', this.host];
    this.#child = spawn('redis-server', [deployPath('redis-cluster.conf'), ...secrets, ...place], {
      cwd: this.#folder,
      stdio: 'ignore',
    });
  }

  async end(): Promise<void> {
    await end(this.#child, 'SIGKILL');
  }

  async isWhole(): Promise<boolean> {
    const client = new Redis({ host: this.host, port: this.#port, password: redisPassword });
    client.on('error', () => undefined);
    try {
      const [info, replication] = [await client.call('CLUSTER', 'INFO'), await client.info('replication')];
      const isLinked = /connected_slaves:1|master_link_status:up/.test(replication);
      return String(info).includes('cluster_state:ok') && String(info).includes('cluster_known_nodes:6') && isLinked;
    } finally {
      client.disconnect();
    }
  }
}

t.test('Redis: six members become a cluster, and one again when each has another address', async (t) => {
  const folder = temporaryFolder(t);
  const port = await freePort();
  const members = [31, 32, 33, 34, 35, 36].map((last) => new Member(folder, port, `127.0.0.${last}`));
  t.teardown(() => Promise.all(members.map((member) => member.end())));
  const make = (): Promise<unknown> =>
    run('sh', [deployPath('redis-cluster.sh'), ...members.map(({ place }) => place)], {
      env: { PATH: process.env['PATH'], REDISCLI_AUTH: redisPassword },
    });
  const whole = (): Promise<unknown> =>
    until(async () => {
      await make().catch(() => undefined);
      return (await Promise.all(members.map((member) => member.isWhole()))).every(Boolean);
    });

  for (const member of members.slice(1)) member.start();
  await t.rejects(make(), { code: 1, stderr: /of 6 members answer/ });
  members[0]?.start();
  await whole();
  await t.resolves(make(), 'it may be run again');
  const client = new Redis.Cluster([{ host: '127.0.0.31', port }], { redisOptions: { password: redisPassword } });
  await client.set('a', '1');
  client.disconnect();

  for (const member of members) {
    await member.end();
    member.host = member.host.replace('127.0.0.', '127.0.1.');
    member.start();
  }
  await whole();
  const moved = new Redis.Cluster([{ host: '127.0.1.31', port }], { redisOptions: { password: redisPassword } });
  await moved.set('b', '2');
  moved.disconnect();
});
