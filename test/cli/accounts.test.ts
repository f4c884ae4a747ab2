// `sluice user` and `sluice key` as an operator types them: on Postgres beside servers and Redis, and on the embedded database.
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { passwordHashOf, verifyPassword } from '../../src/account/users.js';
import { mainPath } from '../../src/paths.js';
import { openPostgres } from '../../src/store/postgres.js';
import { type Ended, start } from '../fixtures/command.js';
import { startCommands } from '../fixtures/commands.js';
import { seedMigrated } from '../fixtures/embedded-template.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { serverPassword, startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { startServer } from '../fixtures/server.js';
import { bearer, mySessions, refresh, signIn } from '../fixtures/sign-in.js';

type Env = Readonly<Record<string, string>>;

/** Runs the command to its end, with `input` on stdin. */
const runProcess = (env: Env, args: readonly string[], input = ''): Promise<Ended> =>
  start(t, mainPath, args, { env, cwd: tmpdir(), input }).ended;

type Run = (env: Env, args: readonly string[], input?: string) => Promise<Ended>;

/** What the command says with --json. */
const jsonBy =
  (run: Run) =>
  async <T>(env: Env, args: readonly string[], shape: z.ZodType<T>): Promise<T> => {
    const { code, stdout, stderr } = await run(env, [...args, '--json']);
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return shape.parse(JSON.parse(stdout));
  };

const User = z.object({
  ...{ id: z.uuid(), email: z.string(), name: z.string(), role: z.enum(['user', 'operator']) },
  ...{ plan: z.string(), hourlyLimit: z.int() },
});
const Key = z.looseObject({ uuid: z.uuid(), name: z.string(), value: z.string(), lastUse: z.string().nullable() });

async function scan(url: string, key: string): Promise<number> {
  const body = new FormData();
  body.append('file', new Blob(['hello']), 'hello.txt');
  const response = await fetch(`${url}/api/v1/scans`, { method: 'POST', headers: { 'X-API-KEY': key }, body });
  await response.text();
  return response.status;
}

t.test('on Postgres', async (t) => {
  const commands = startCommands();
  t.teardown(() => commands.stop());
  const sluice: Run = (env, args, input = '') =>
    input === '' ? commands.run(env, args) : runProcess(env, args, input);
  const json = jsonBy(sluice);
  const postgres = await startPostgres({ t });
  const url = await postgres.database();
  const env = { DATABASE_URL: url };
  const store = await openPostgres({ kind: 'url', url });
  t.teardown(() => store.close());

  t.test('an account with a random password, printed once', async (t) => {
    const { code, stdout, stderr } = await sluice(env, ['user', 'add', ' Ada@Example.com', '--name', ' Ada ']);
    t.equal(stderr, '');
    t.match(stdout, /^ada@example\.com has an account on the plan FREE\.\n/);
    const password = /shown again: ([\w-]{24})\n$/.exec(stdout)?.[1] ?? '';
    t.equal(code, 0);
    const [user] = await json(env, ['user', 'list'], z.array(User.extend({ keys: z.int() })));
    t.match(user, { email: 'ada@example.com', name: 'Ada', plan: 'FREE', hourlyLimit: 50, keys: 0 });
    t.ok(await verifyPassword(password, (await passwordHashOf(store.sql, user?.id ?? '')) ?? ''));
  });

  t.test('an account with the password from stdin, which is not printed', async (t) => {
    const password = 'a sentence that I know';
    const add = ['user', 'add', 'eve@example.com', '--plan', 'PRO', '--password-stdin', '--json'];
    const { stdout, code } = await sluice(env, add, `${password}\n`);
    t.equal(code, 0);
    const user = User.strict().extend({ creationDate: z.string() }).parse(JSON.parse(stdout));
    t.match(user, { plan: 'PRO', hourlyLimit: 1_000 });
    t.ok(await verifyPassword(password, (await passwordHashOf(store.sql, user.id)) ?? ''));
  });

  t.test(
    'another password, printed once or from stdin, ends every session at once, and the old one works no more',
    async (t) => {
      const server = await startServer({ t, env });
      const email = 'eve@example.com';
      const before = await signIn(server.url, email, 'a sentence that I know');
      const printed = await sluice(env, ['user', 'password', ' EVE@example.com']);
      t.match(printed, {
        code: 0,
        stderr: '',
        stdout: 'eve@example.com has another password, and no session any more.\n',
      });
      const password = /shown again: ([\w-]{24})\n$/.exec(printed.stdout)?.[1] ?? '';
      t.equal((await mySessions(server.url, bearer(before.accessToken))).status, 401);
      t.equal((await refresh(server.url, before.refreshToken)).status, 401);
      await t.rejects(signIn(server.url, email, 'a sentence that I know'), /^Not signed in: 401/);
      const between = await signIn(server.url, email, password);
      const given = 'a sentence that nobody knows';
      const silent = await sluice(env, ['user', 'password', email, '--password-stdin', '--json'], `${given}\n`);
      t.equal(silent.code, 0);
      t.match(User.strict().extend({ creationDate: z.string() }).parse(JSON.parse(silent.stdout)), { email });
      t.equal((await mySessions(server.url, bearer(between.accessToken))).status, 401);
      t.ok(await signIn(server.url, email, given));
    },
  );

  t.test('what is refused ends with 2 and says why, and nothing is changed', async (t) => {
    const before = [...(await store.sql`SELECT * FROM users ORDER BY id`)];
    const refused: [readonly string[], string, string][] = [
      [['user', 'add', 'ADA@example.com'], '', 'ada@example.com has an account already\n'],
      [['user', 'add', 'nobody'], '', 'EMAIL must be an e-mail address\n'],
      [
        ['user', 'add', 'x@example.com', '--plan', 'GOLD'],
        '',
        'There is no plan GOLD; PLANS has FREE, PRO, BUSINESS\n',
      ],
      [['user', 'add', 'x@example.com', '--name', 'a\nb'], '', '--name must not have control characters\n'],
      [['user', 'add', 'x@example.com', '--password-stdin'], 'short', 'The password must have 12 to 128 characters\n'],
      [['user', 'add', 'x@example.com', '--password-stdin'], 'x'.repeat(20_000), 'What comes in is no password'],
      [['user', 'set-plan', 'ada@example.com', 'free'], '', 'There is no plan free; PLANS has FREE, PRO, BUSINESS\n'],
      [
        ['user', 'set-plan', 'x@example.com', 'PRO'],
        '',
        'No account has the address x@example.com; `sluice user list`',
      ],
      [['user', 'password', 'x@example.com'], '', 'No account has the address x@example.com; `sluice user list`'],
      [['user', 'password', 'ada@example.com', '--password-stdin'], 'short', 'The password must have 12 to 128'],
      [['key', 'list', 'x@example.com'], '', 'No account has the address x@example.com'],
      [['key', 'create', 'x@example.com', '--name', 'one'], '', 'No account has the address x@example.com'],
      [['key', 'create', 'ada@example.com', '--name', ' '], '', '--name must not be empty\n'],
      [['key', 'create', 'ada@example.com'], '', 'error: required option'],
      [
        ['key', 'create', 'ada@example.com', '--name', 'x', '--scopes', 'all'],
        '',
        '--scopes must be one of scan, read\n',
      ],
      [
        ['key', 'create', 'ada@example.com', '--name', 'x', '--hourly-limit', '1000000'],
        '',
        '--hourly-limit must be at most',
      ],
      [
        ['key', 'create', 'ada@example.com', '--name', 'x', '--expires', '2020-01-01T00:00:00'],
        '',
        '--expires must be in the',
      ],
      [
        ['key', 'create', 'ada@example.com', '--name', 'x', '--hourly-limit', 'ten'],
        '',
        '--hourly-limit must be a whole number from 1',
      ],
      [
        ['key', 'create', 'ada@example.com', '--name', 'x', '--hourly-limit', '0x10'],
        '',
        '--hourly-limit must be a whole',
      ],
      [
        ['key', 'create', 'ada@example.com', '--name', 'x', '--expires', 'soon'],
        '',
        '--expires must be a UTC time like 2030-01-31T00:00:00\n',
      ],
      [['key', 'revoke', 'f'.repeat(32)], '', 'There is no such live key; `sluice key list EMAIL`'],
      [['key', 'revoke', "' OR 1=1"], '', 'There is no such live key'],
      [['user', 'add'], '', 'error: missing required argument'],
      [['user'], '', 'Usage: sluice user'],
      [['key', 'rotate'], '', 'error: unknown command'],
    ];
    for (const [args, input, message] of refused) {
      const { code, stdout, stderr } = await sluice(env, args, input);
      t.equal(code, 2, args.join(' '));
      t.equal(stdout, '');
      t.equal(stderr.slice(0, message.length), message);
    }
    t.same([...(await store.sql`SELECT * FROM users ORDER BY id`)], before);
    const wrong = await sluice({ DATABASE_URL: 'mysql://x' }, ['user', 'list']);
    t.match(wrong, { code: 78, stdout: '', stderr: 'DATABASE_URL must start with postgres://' });
    const away = await sluice({ DATABASE_URL: `postgres://postgres:${serverPassword}@127.0.0.1:1/x` }, [
      'user',
      'list',
    ]);
    t.match(away, { code: 2, stdout: '', stderr: 'Postgres at 127.0.0.1:1/x' });
    t.notMatch(away.stderr, serverPassword);
  });

  t.test('a key is made, listed and ended; its value is printed once', async (t) => {
    const { stdout } = await sluice(env, ['key', 'create', 'ADA@example.com', '--name', 'first']);
    const [, value = '', uuid = ''] = /shown again: ([0-9a-f]{32})\nIts uuid: ([0-9a-f-]{36})\n$/.exec(stdout) ?? [];
    const list = await sluice(env, ['key', 'list', 'ada@example.com']);
    t.notMatch(list.stdout, value);
    t.match(
      list.stdout,
      /^UUID {34}NAME {3}VALUE {29}CREATED \(UTC\) {8}LAST USE \(UTC\) {2}EXPIRES \(UTC\) {2}SCANS\/H {8}FOR\n/,
    );
    t.match(list.stdout, `${uuid}  first  ${value.slice(0, 4)}${'*'.repeat(24)}${value.slice(-4)}  20`);
    const second = await json(env, ['key', 'create', 'ada@example.com', '--name', 'second'], Key);
    t.match(second, { name: 'second', value: /^[0-9a-f]{32}$/, lastUse: null });
    const limits = ['--expires', '2099-01-31T00:00:00', '--hourly-limit', '3', '--scopes', 'read'];
    const third = await json(env, ['key', 'create', 'ada@example.com', '--name', 'third', ...limits], Key);
    t.match(third, { expires: '2099-01-31T00:00:00', hourlyLimit: 3, scopes: ['read'] });
    await sluice(env, ['key', 'revoke', third.uuid]);
    const ended = await sluice(env, ['key', 'revoke', uuid]);
    t.match(ended, {
      code: 0,
      stdout: `The key ${uuid} (first) is revoked; a running server refuses it within 15 seconds.`,
    });
    t.match(await json(env, ['key', 'list', 'ada@example.com'], z.array(Key)), [{ uuid: second.uuid }]);
    t.equal((await sluice(env, ['key', 'revoke', uuid])).code, 2);
    const byValue = await sluice(env, ['key', 'revoke', second.value, '--json']);
    t.match(JSON.parse(byValue.stdout), { uuid: second.uuid });
    t.notMatch(`${byValue.stdout}${byValue.stderr}`, second.value);
  });

  t.test('nothing is changed without its line of the audit log', async (t) => {
    const tables = () =>
      store.sql`
      SELECT (SELECT count(*) FROM users) AS users, (SELECT count(*) FROM api_keys) AS keys,
        (SELECT count(*) FROM password_resets) AS resets, count(totp_pending) AS pending FROM users`;
    await store.sql`UPDATE users SET totp_pending = 'pending' WHERE email = 'ada@example.com'`;
    await store.sql`ALTER TABLE audit_log ADD CONSTRAINT closed CHECK (false) NOT VALID`;
    const before = await tables();
    for (const args of [
      ['user', 'add', 'unheard@example.com'],
      ['user', 'reset', 'ada@example.com'],
      ['user', 'two-factor-off', 'ada@example.com'],
      ['key', 'create', 'ada@example.com', '--name', 'unheard'],
    ]) {
      t.match(await sluice(env, args), { stdout: '', stderr: /violates check constraint "closed"/ }, args.join(' '));
    }
    t.strictSame(await tables(), before);
    await store.sql`ALTER TABLE audit_log DROP CONSTRAINT closed`;
  });

  t.test('what a name has cannot move the cursor of who lists it', async (t) => {
    await store.sql`UPDATE users SET name = ${'\u001b[2J\u202eevil'} WHERE email = 'eve@example.com'`;
    const { stdout } = await sluice(env, ['user', 'list']);
    t.match(stdout, '\\x1b[2J\\u{202e}evil');
    const inJson = (await sluice(env, ['user', 'list', '--json'])).stdout;
    for (const character of ['\u001b', '\u202e']) t.notOk(inJson.includes(character));
  });

  t.test('beside running servers with Redis a plan and a revocation count at the next request', async (t) => {
    const redis = await startRedis({ t });
    const shared = { ...env, REDIS_URL: redis.url };
    const nodes = await Promise.all([startServer({ env: shared }), startServer({ env: shared })]);
    t.teardown(() => Promise.all(nodes.map((node) => node.stop())));
    const { uuid, value } = await json(shared, ['key', 'create', 'ada@example.com', '--name', 'mine'], Key);
    for (const { url } of nodes) t.equal(await scan(url, value), 200, 'at once on every node');
    t.match(await json(shared, ['user', 'set-plan', 'ada@example.com', 'PRO'], User), {
      plan: 'PRO',
      hourlyLimit: 1_000,
    });
    const body = new FormData();
    body.append('file', new Blob(['hello']), 'hello.txt');
    const answer = await fetch(`${nodes[0].url}/api/v1/scans`, {
      method: 'POST',
      headers: { 'X-API-KEY': value },
      body,
    });
    t.equal(answer.headers.get('x-ratelimit-limit'), '1000');
    t.match(await sluice(shared, ['key', 'revoke', uuid]), { code: 0, stdout: `The key ${uuid} (mine) is revoked.\n` });
    for (const { url } of nodes) t.equal(await scan(url, value), 401, 'at once on every node');

    const other = await json(shared, ['key', 'create', 'ada@example.com', '--name', 'other'], Key);
    await redis.kill();
    const untold = await sluice(shared, ['key', 'revoke', other.uuid]);
    t.match(untold, { code: 2, stdout: '', stderr: 'Redis does not answer. Not every server refuses the key yet' });
    t.match(await sluice(shared, ['user', 'set-plan', 'ada@example.com', 'FREE']), {
      code: 0,
      stderr: 'servers follow',
    });
    await redis.start();
    t.equal((await sluice(shared, ['key', 'revoke', other.uuid])).code, 0, 'the same command completes it');
    for (const { url } of nodes) t.equal(await scan(url, other.value), 401);
  });
});

t.test('on the embedded database', async (t) => {
  const directory = temporaryFolder(t);
  const env = { DATA_DIR: join(directory, 'data') };
  // Each as a process of its own, as it is typed.
  const sluice = runProcess;
  const json = jsonBy(sluice);

  t.test('accounts and keys are made beside a server and without one, and no store is made for them', async (t) => {
    const early = await sluice(env, ['user', 'add', 'ada@example.com']);
    t.match(early, { code: 2, stdout: '', stderr: `${env.DATA_DIR}: there is no such folder` });
    t.notOk(existsSync(env.DATA_DIR));
    await seedMigrated(env.DATA_DIR);
    t.match(await sluice(env, ['user', 'add', 'ada@example.com', '--plan', 'PRO']), { code: 0, stderr: '' });
    const { value, uuid } = await json(env, ['key', 'create', 'ada@example.com', '--name', 'one'], Key);
    const server = await startServer({ t, env, directory });
    t.equal(await scan(server.url, value), 200);

    t.match(await json(env, ['user', 'list'], z.array(User)), [{ email: 'ada@example.com' }]);
    const [more] = await Promise.all([
      json(env, ['key', 'create', 'ada@example.com', '--name', 'two'], Key),
      sluice(env, ['user', 'set-plan', 'ada@example.com', 'FREE']),
    ]);
    t.equal(await scan(server.url, more.value), 200, 'beside the server that has the database');
    await server.stop();
    t.match(await json(env, ['key', 'list', 'ada@example.com'], z.array(Key)), [
      { uuid: more.uuid },
      { uuid, lastUse: /^\d{4}-/ },
    ]);
    t.match(await sluice(env, ['key', 'revoke', uuid]), { code: 0, stdout: `The key ${uuid} (one) is revoked.\n` });
  });
});
