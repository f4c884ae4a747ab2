// Which service a command is about, and that no command but `serve` makes a store.
import { execFile } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import postgres from 'postgres';
import t from 'tap';
import { findService } from '../../src/cli/service-place.js';
import { mainPath, packageJsonPath } from '../../src/paths.js';
import { type Ended, start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const sluice = (cwd: string, env: Readonly<Record<string, string>>, ...args: string[]): Promise<Ended> =>
  start(t, mainPath, args, { cwd, env }).ended;

const COMMANDS = [
  ['user', 'list'],
  ['user', 'add', 'ada@example.com'],
  ['user', 'set-plan', 'ada@example.com', 'PRO'],
  ['user', 'password', 'ada@example.com'],
  ['key', 'create', 'ada@example.com', '--name', 'one'],
  ['key', 'list', 'ada@example.com'],
  ['key', 'revoke', 'f'.repeat(32)],
  ['billing', 'reconcile'],
];

/** The program in a folder of its own, whose `data` is nobody's: its main file. */
function copyOfProgram(folder: string): string {
  const root = join(packageJsonPath, '..');
  for (const part of [
    'package.json',
    'dist/program',
    ...['main', 'paths', 'error-text'].map((name) => `dist/src/${name}.js`),
  ]) {
    cpSync(join(root, part), join(folder, part), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'dist/src/main.js');
}

t.test('where no service has been, every command says where it looked, ends with 2 and makes nothing', async (t) => {
  const folder = temporaryFolder(t);
  const copy = copyOfProgram(join(folder, 'program'));
  const sluice = (cwd: string, env: Readonly<Record<string, string>>, ...args: string[]): Promise<Ended> =>
    start(t, copy, args, { cwd, env }).ended;
  for (const command of COMMANDS) {
    const { code, stdout, stderr } = await sluice(folder, {}, ...command);
    t.equal(code, 2, command.join(' '));
    t.equal(stdout, '');
    t.match(stderr, /^There is no store of a service here, and only `sluice serve` makes one\. Looked in:\n {2}\S/);
    t.match(stderr, `  ${join(folder, 'data')}: there is no such folder\n`);
    t.match(stderr, `  ${join(folder, 'program', 'data')}: there is no such folder\n`);
    t.match(stderr, '--data-dir DIR');
  }
  mkdirSync(join(folder, 'empty'));
  const named = await sluice(folder, {}, 'user', 'list', '--data-dir', 'empty');
  t.match(named, { code: 2, stderr: `Looked in:\n  ${join(folder, 'empty')}: it has no database\n` });
  const byVariable = await sluice(folder, { DATA_DIR: join(folder, 'empty') }, 'user', 'list');
  t.match(byVariable, { code: 2, stderr: `Looked in:\n  ${join(folder, 'empty')}: it has no database\n` });
  t.notOk(existsSync(join(folder, 'data')));
  t.notOk(existsSync(join(folder, 'empty', 'postgres')));

  mkdirSync(join(folder, 'program', 'data'));
  writeFileSync(join(folder, 'program', 'data', 'service.json'), '{"DATABASE_URL":"postgres://127.0.0.1:1/here"}');
  const beside = await sluice(folder, {}, 'user', 'list');
  t.match(
    beside,
    { code: 2, stderr: 'Postgres at 127.0.0.1:1/here' },
    'a service of `npm start` is found from anywhere',
  );
});

t.test("what another user has left in a folder where all may write is nobody's service", (t) => {
  const open = temporaryFolder(t);
  const data = join(open, 'data');
  mkdirSync(data);
  writeFileSync(join(data, 'service.json'), JSON.stringify({ DATABASE_URL: 'postgres://another.example/' }));
  const find = () => findService({}, { dataDirectory: null, environmentFile: join(open, 'none'), directories: [data] });
  t.match(find(), { DATABASE_URL: 'postgres://another.example/' });
  chmodSync(open, 0o777);
  t.match(find(), { DATABASE_URL: 'postgres://another.example/' }, 'our own');
  if (process.geteuid?.() === 0) {
    chownSync(data, 65_534, 65_534);
    t.throws(find, { message: `${data}: it belongs to another user` });
    t.match(findService({}, { dataDirectory: data }), { DATABASE_URL: 'postgres://another.example/' }, 'named');
  }
  t.end();
});

t.test('the service is found in ./data and by its folder, beside its server and when it has stopped', async (t) => {
  const directory = temporaryFolder(t);
  const data = join(directory, 'data');
  const server = await startServer({
    t,
    isSupervised: true,
    directory,
    env: { DATA_DIR: data, BASE_URL: 'https://scan.example.com' },
  });
  const elsewhere = temporaryFolder(t);
  const listed = { code: 0, stderr: '', stdout: 'admin@sluice.local' };
  t.match(await sluice(directory, {}, 'user', 'list'), listed);
  t.match(await sluice(elsewhere, {}, 'user', 'list', '--data-dir', data), listed);
  t.match(await sluice(elsewhere, { DATA_DIR: data }, 'user', 'list'), listed);
  const reset = await sluice(elsewhere, { DATA_DIR: data }, 'user', 'reset', 'admin@sluice.local');
  t.match(reset, { code: 0, stdout: /^https:\/\/scan\.example\.com\/reset#/ });
  t.equal(statSync(join(data, 'service.json')).mode & 0o777, 0o600);
  await server.stop();
  t.match(await sluice(elsewhere, {}, 'user', 'list', '--data-dir', data), listed);
});

t.test('status and newer signatures are about the service whose folder it is, on any port', async (t) => {
  const data = join(temporaryFolder(t), 'data');
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Old', 'an old mark') });
  const from = databaseFolder(t, { 'b.ndb': bodySignature('Test.New', 'a new mark') });
  const port = String(await freePort());
  await startServer({ t, isSupervised: true, env: { DATA_DIR: data, PORT: port, SIGNATURES_DIR: folder } });
  const elsewhere = temporaryFolder(t);
  const env = { DATA_DIR: data };
  const running = { code: 0, stdout: /^service {4}ready$.*^signatures other, without/ms };
  t.match(await sluice(elsewhere, env, 'status'), running);
  t.match(await sluice(elsewhere, {}, 'status', '--data-dir', data), running);
  t.match(await sluice(elsewhere, env, 'status', '--data-dir', elsewhere), { code: 2, stderr: 'it has no database' });
  const signatures = await sluice(elsewhere, {}, 'signatures', 'status', '--data-dir', data);
  t.match(signatures, { code: 0, stdout: 'The server has loaded them' });
  const updated = await sluice(elsewhere, env, 'signatures', 'update', '--from', from);
  t.match(updated, {
    code: 0,
    stdout: `${join(folder, 'b.ndb')} is new\nA running service takes them over by itself.\n`,
  });
  writeFileSync(join(elsewhere, 'marked'), 'a new mark');
  t.match(await sluice(elsewhere, env, 'scan', 'marked'), { code: 1, stdout: /^marked: INFECTED/, stderr: '' });
  // What lies beside a file has no say in what is said of it.
  mkdirSync(join(elsewhere, 'data', 'signatures'), { recursive: true });
  writeFileSync(join(elsewhere, 'data', 'signatures', 'b.ndb'), bodySignature('Test.New', 'a new mark'));
  t.match(await sluice(elsewhere, {}, 'scan', 'marked'), { code: 0, stdout: /^marked: CLEAN/ });
  const status = await sluice(elsewhere, {}, 'signatures', 'status');
  t.match(status.stdout, /^They are only those that ship with Sluice: .*`sluice signatures update`/m);
  t.notMatch(status.stdout, elsewhere);
  writeFileSync(
    join(elsewhere, 'data', 'service.json'),
    `{"DATABASE_URL":"postgres://x/","SIGNATURES_DIR":"${folder}"}`,
  );
  t.match(await sluice(elsewhere, {}, 'scan', 'marked'), { code: 0, stderr: /^sluice: 16 signatures serve/ });
  const none = { DATA_DIR: join(elsewhere, 'none') };
  t.match(await sluice(elsewhere, none, 'signatures', 'update', '--from', from), {
    code: 0,
    stdout: `No service has its data in ${none.DATA_DIR} yet`,
  });
});

t.test('of a service with a database of its own, the data folder has the address and the plans', async (t) => {
  const database = await startPostgres({ t });
  const url = await database.database();
  const elsewhere = temporaryFolder(t);

  const early = await sluice(elsewhere, { DATABASE_URL: url }, 'user', 'list');
  t.match(early, {
    code: 2,
    stdout: '',
    stderr: /^Postgres at \S+ has no tables of Sluice, and only `sluice serve` makes them/,
  });
  const sql = postgres(url);
  t.teardown(() => sql.end());
  t.same([...(await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)], []);

  const server = await startServer({
    t,
    isSupervised: true,
    env: { DATABASE_URL: url, PLANS: 'FREE:7,HUGE:70', BOOTSTRAP_PLAN: 'HUGE', STRIPE_API_BASE: 'http://127.0.0.1:9' },
  });
  const data = join(server.directory, 'data');
  const added = await sluice(
    elsewhere,
    {},
    'user',
    'add',
    'ada@example.com',
    '--plan',
    'HUGE',
    '--json',
    '--data-dir',
    data,
  );
  t.match(JSON.parse(added.stdout), { plan: 'HUGE', hourlyLimit: 70 });
  const left: unknown = JSON.parse(readFileSync(join(data, 'service.json'), 'utf8'));
  t.match(left, { DATABASE_URL: url, PLANS: 'FREE:7,HUGE:70', BOOTSTRAP_PLAN: 'HUGE', ADMIN_PORT: '0' });
  t.notMatch(JSON.stringify(left), 'STRIPE', 'and nothing that commands do not need');
  const other = { DATABASE_URL: 'postgres://127.0.0.1:1/other' };
  t.match(await sluice(elsewhere, other, 'user', 'list', '--data-dir', data), { code: 0, stdout: 'ada@example.com' });
  t.match(await sluice(elsewhere, other, 'user', 'list'), { code: 2, stderr: 'Postgres at 127.0.0.1:1/other' });
});

t.test(
  'the file of the unit names the folder or the database; what is in the environment goes before it',
  async (t) => {
    const folder = temporaryFolder(t);
    const environmentFile = join(folder, 'sluice.env');
    const find = (env: NodeJS.ProcessEnv, dataDirectory: string | null = null) =>
      findService(env, { dataDirectory, environmentFile, directories: [join(folder, 'none'), join(folder, 'unit')] });
    const data = join(folder, 'it is "here"');
    mkdirSync(join(data, 'postgres', '18'), { recursive: true });

    t.throws(() => find({}), { message: `${environmentFile}: there is no such file` });
    writeFileSync(environmentFile, '# PORT and others\nPORT=81\n\n');
    t.throws(() => find({}), { message: `${environmentFile}: it has no DATA_DIR and no DATABASE_URL` });
    writeFileSync(environmentFile, `PLANS=A:1\nDATA_DIR='${data}'\n`);
    t.same(find({}), { PLANS: 'A:1', DATA_DIR: data });
    t.same(find({ PLANS: 'B:2' }), { PLANS: 'B:2', DATA_DIR: data });
    t.same(find({ DATABASE_URL: 'postgres://x/y' }), { DATABASE_URL: 'postgres://x/y' });
    writeFileSync(environmentFile, 'DATABASE_URL=postgres://x/z\n');
    t.same(find({}), { DATABASE_URL: 'postgres://x/z' });
    t.same(find({}, data), { DATA_DIR: data }, 'what is named counts alone');
    rmSync(environmentFile);
    mkdirSync(join(folder, 'unit', 'postgres', '18'), { recursive: true });
    t.same(find({ DATA_DIR: '' }), { DATA_DIR: join(folder, 'unit') });
    writeFileSync(join(folder, 'unit', 'service.json'), '["no", {"__proto__": 1}');
    t.throws(() => find({}), { message: `${join(folder, 'unit')}: ` }, 'a file that is broken is said to be');
  },
);

t.test('what deploy/ has for the PATH runs this program through a link', async (t) => {
  const folder = temporaryFolder(t);
  symlinkSync(fileURLToPath(new URL('../../../deploy/sluice', import.meta.url)), join(folder, 'sluice'));
  const { stdout } = await promisify(execFile)(join(folder, 'sluice'), ['--version']);
  t.match(stdout, /^\d+\.\d+\.\d+\n$/);
});
