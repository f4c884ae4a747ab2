// `sluice signatures`: what is there, whether it loads, and updates from a real HTTP server and from a folder, all or nothing.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { fingerprint } from '../../src/engine/databases.js';
import { mainPath, ownSignaturesDirectory } from '../../src/paths.js';
import { type Ended, start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { startServer } from '../fixtures/server.js';
import { startMirror } from '../fixtures/signature-mirror.js';
import { until } from '../fixtures/until.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const OLD = bodySignature('Test.Old', 'an old mark');
const NEW = bodySignature('Test.Old', 'an old mark') + bodySignature('Test.New', 'a new mark');

function run(t: Test, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return start(t, mainPath, ['signatures', ...args], { cwd: tmpdir(), env: { PORT: '1', ...env } }).ended;
}

/** Name to content: all that a later look could see. */
function contentOf(folder: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(folder)
      .filter((name) => name !== 'freshclam.dat')
      .map((name) => [
        name,
        statSync(join(folder, name)).isFile() ? readFileSync(join(folder, name), 'utf8') : 'folder',
      ]),
  );
}

t.test('status tells files, versions, ages and counts, and that no server answers', async (t) => {
  const header = `ClamAV-VDB:01 Jan 2026 00-00 +0000:27000:1234:90:${'0'.repeat(32)}:sig:nobody:1767225600`;
  const folder = databaseFolder(t, { 'a.ndb': NEW, 'daily.cvd': header.padEnd(512) });
  const { stdout, code } = await run(t, ['status'], { SIGNATURES_DIR: folder });
  t.equal(code, 0);
  t.match(stdout, `${folder}\n  a.ndb: 2 signatures\n`);
  t.match(stdout, /daily\.cvd: version 27000, 1234 signatures, built 2026-01-01T00:00:00, \d+ days old/);
  t.match(stdout, /The newest daily database is [\d.]+ days old: `sluice signatures update` fetches a newer one/);
  t.match(stdout, 'No server with signatures answers here');
  const json = await run(t, ['status', '--json'], { SIGNATURES_DIR: folder });
  t.match(JSON.parse(json.stdout), {
    folders: [{ folder, files: [{ file: 'a.ndb', version: null, signatures: 2 }, { version: 27000 }], problem: null }],
    version: /^daily:27000\+[0-9a-f]{8}$/,
    server: null,
  });
});

t.test('status says what a server has loaded, and when that is something else', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': OLD });
  const server = await startServer({ t, env: { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '0' } });
  const env = { SIGNATURES_DIR: folder, PORT: String(server.port) };
  t.match((await run(t, ['status'], env)).stdout, 'The server has loaded them: 1 signature\n');
  writeFileSync(join(folder, 'a.ndb'), NEW);
  t.match((await run(t, ['status'], env)).stdout, /The server has loaded others: version [0-9a-f]{8}, 1 signature\n/);
});

t.test('status of a folder that has none or is not there is a failure', async (t) => {
  const { stdout, code } = await run(t, ['status'], { SIGNATURES_DIR: `${databaseFolder(t, {})}:/nowhere/at/all` });
  t.equal(code, 2);
  t.match(stdout, 'there is no signature database in it');
  t.match(stdout, '/nowhere/at/all\n  ENOENT');
});

t.test('check loads what is configured or given, and says what is wrong with it', async (t) => {
  const own = await run(t, ['check'], { SIGNATURES_DIR: ownSignaturesDirectory });
  t.equal(own.code, 0);
  t.match(own.stdout, /^OK: 16 signatures, version [0-9a-f]{8}, .*self-test passed\n$/);
  t.equal(own.stderr, '');
  const good = databaseFolder(t, { 'a.ndb': NEW });
  t.match((await run(t, ['check', good, ownSignaturesDirectory])).stdout, /^OK: 18 signatures/);
  const broken = await run(t, ['check', good, databaseFolder(t, { 'b.ldb': 'nonsense\n' })]);
  t.equal(broken.code, 2);
  t.equal(broken.stdout, '');
  t.match(broken.stderr, /b\.ldb/);
  const greedy = await run(t, ['check', databaseFolder(t, { 'a.ndb': bodySignature('Test.Greedy', 'harmless') })]);
  t.equal(greedy.code, 2);
  t.match(greedy.stderr, /self-test failed: harmless text is found to be Test\.Greedy/);
});

t.test('status and check name the line where a rule file is wrong; the other files are loaded', async (t) => {
  const folder = databaseFolder(t, {
    'a.ndb': NEW,
    'good.yar': 'rule one { condition: filesize == 1 }\nrule two { condition: filesize == 2 }\n',
    'bad.yar': 'rule three {\n  condition:\n    nothing\n}\n',
  });
  const problem = `${folder}/bad.yar:3:5: unknown identifier \`nothing\``;
  const status = await run(t, ['status'], { SIGNATURES_DIR: folder });
  t.equal(status.code, 0);
  t.match(status.stdout, '  good.yar: 2 signatures\n');
  t.match(status.stdout, `    ${problem}`);
  const json = await run(t, ['status', '--json'], { SIGNATURES_DIR: folder });
  t.match(JSON.parse(json.stdout).folders[0].files[1], {
    file: 'bad.yar',
    problems: [new RegExp(`^${folder}/bad\\.yar:3:5: `)],
  });
  const check = await run(t, ['check', folder]);
  t.equal(check.code, 2);
  t.match(check.stdout, /^OK: \d+ signatures and 2 YARA rules beside them, /);
  t.match(check.stderr, problem);
  const alone = await run(t, ['check', folder], { ENGINE: 'yara' });
  t.match(alone.stdout, /^OK: 2 YARA rules, /);
  t.match(
    (await run(t, ['check', databaseFolder(t, { 'a.ndb': NEW })], { ENGINE: 'yara' })).stderr,
    'there is no YARA rule',
  );
});

t.test('update keeps a rule file whose newer one has an error, and puts other files in place', async (t) => {
  const good = 'rule one { condition: filesize == 1 }\n';
  const into = databaseFolder(t, { 'a.ndb': NEW, 'own.yar': good });
  const from = databaseFolder(t, { 'own.yar': 'rule one { condition: }\n' });
  const alone = await run(t, ['update', '--from', from, '--into', into]);
  t.equal(alone.code, 2);
  t.match(alone.stderr, `nothing was changed: ${from}/own.yar:1:`);
  const other = `${'a'.repeat(32)}:10:Test.Hash\n`;
  writeFileSync(join(from, 'b.hdb'), other);
  const beside = await run(t, ['update', '--from', from, '--into', into]);
  t.equal(beside.code, 0, beside.stderr);
  t.match(beside.stderr, `${from}/own.yar:1:`);
  t.strictSame(contentOf(into), { 'a.ndb': NEW, 'b.hdb': other, 'own.yar': good });
});

t.test('update fetches from URLs, puts in place what loads, and has nothing to do the next time', async (t) => {
  const url = await startMirror(t, { 'own.ndb': NEW, 'more.hdb': `${'a'.repeat(32)}:10:Test.Hash\n` });
  const into = join(temporaryFolder(t), 'made', 'for it');
  const env = { SIGNATURES_MIRROR: 'none', SIGNATURES_URLS: `${url}/own.ndb, ${url}/more.hdb` };
  const first = await run(t, ['update', '--into', into], env);
  t.equal(first.code, 0, first.stderr);
  t.match(first.stdout, /^OK: 3 signatures/);
  t.strictSame(Object.keys(contentOf(into)).sort(), ['more.hdb', 'own.ndb']);
  t.equal(contentOf(into)['own.ndb'], NEW);
  const before = await fingerprint([into]);
  const second = await run(t, ['update', '--into', into], env);
  t.equal(second.code, 0, second.stderr);
  t.match(second.stdout, 'has the newest signatures already');
  t.equal(await fingerprint([into]), before, 'nor is there anything to load anew');
});

t.test('update --from takes the URL of one file, or of a mirror, whatever is configured', async (t) => {
  const url = await startMirror(t, { 'own.ndb': NEW });
  const into = databaseFolder(t, { 'kept.ndb': OLD });
  const env = { SIGNATURES_MIRROR: 'http://127.0.0.1:1', SIGNATURES_URLS: 'http://127.0.0.1:1/none.ndb' };
  const { code, stdout, stderr } = await run(t, ['update', '--into', into, '--from', `${url}/own.ndb`], env);
  t.equal(code, 0, stderr);
  t.match(stdout, /^OK: 3 signatures/);
  t.strictSame(contentOf(into), { 'kept.ndb': OLD, 'own.ndb': NEW });
  const empty = await run(t, ['update', '--into', into, '--from', url], env);
  t.equal(empty.code, 2);
  t.match(empty.stderr, 'sluice: nothing was changed: freshclam ended with');
  t.strictSame(contentOf(into), { 'kept.ndb': OLD, 'own.ndb': NEW });
});

t.test('an update needs no name of the user that it runs as', { skip: noNamespaces }, async (t) => {
  const url = await startMirror(t, { 'own.ndb': NEW });
  const into = temporaryFolder(t);
  const nameless = ['--user', '--map-user=54321', '--map-group=54321', process.execPath, mainPath];
  const { stdout } = await promisify(execFile)('unshare', [...nameless, 'signatures', 'update', '--into', into], {
    cwd: tmpdir(),
    env: { PATH: process.env['PATH'], SIGNATURES_MIRROR: 'none', SIGNATURES_URLS: `${url}/own.ndb` },
  });
  t.match(stdout, /^OK: 2 signatures/);
  t.strictSame(contentOf(into), { 'own.ndb': NEW });
});

t.test('whatever goes wrong with an update changes nothing', async (t) => {
  const url = await startMirror(t, { 'own.ndb': NEW, 'bad.ndb': 'nonsense\n', 'daily.cvd': 'ClamAV-VDB:nonsense' });
  const closed = createServer();
  closed.listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const address = closed.address();
  const port = address === null || typeof address === 'string' ? 0 : address.port;
  closed.close();
  const cases: Record<string, Record<string, string>> = {
    'one of two files is missing': { SIGNATURES_MIRROR: 'none', SIGNATURES_URLS: `${url}/own.ndb,${url}/none.ndb` },
    'a file is no database': { SIGNATURES_MIRROR: 'none', SIGNATURES_URLS: `${url}/own.ndb,${url}/bad.ndb` },
    'the mirror has no official database': { SIGNATURES_MIRROR: url },
    'nobody listens': { SIGNATURES_MIRROR: 'none', SIGNATURES_URLS: `http://127.0.0.1:${port}/own.ndb` },
    'there is no freshclam': { SIGNATURES_MIRROR: url, PATH: '/nowhere' },
  };
  for (const [what, env] of Object.entries(cases)) {
    const into = databaseFolder(t, { 'own.ndb': OLD });
    const before = await fingerprint([into]);
    const { code, stdout, stderr } = await run(t, ['update', '--into', into], env);
    t.equal(code, 2, what);
    t.equal(stdout, '', what);
    t.match(stderr, 'sluice: nothing was changed', what);
    t.strictSame(contentOf(into), { 'own.ndb': OLD }, what);
    t.equal(await fingerprint([into]), before, `${what}: servers have nothing to load anew`);
  }
  const nowhere = await run(t, ['update', '--into', '/proc/none/signatures']);
  t.match(nowhere, { code: 2, stderr: /ENOENT.*'\/proc\/none'/ }, 'a folder that can not be made');
});

/** A PATH without freshclam, and with an apt-get that puts the system's into it. */
function machineWithoutFreshclam(t: Test): string {
  const path = temporaryFolder(t);
  for (const name of ['sh', 'env', 'id', 'mktemp', 'cat', 'rm', 'ln'])
    symlinkSync(`/usr/bin/${name}`, join(path, name));
  symlinkSync(process.execPath, join(path, 'node'));
  const install = `[ "$1" != install ] || ln -s /usr/bin/freshclam ${join(path, 'freshclam')}`;
  writeFileSync(join(path, 'apt-get'), `#!/bin/sh\n${install}\n`, { mode: 0o755 });
  writeFileSync(join(path, 'sudo'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
  return path;
}

t.test('freshclam is installed where it is missing, if --yes is given or somebody says yes', async (t) => {
  const from = `${await startMirror(t, { 'own.ndb': NEW })}/own.ndb`;
  const PATH = machineWithoutFreshclam(t);
  const into = temporaryFolder(t);
  const refused = await run(t, ['update', '--into', into, '--from', from], { PATH, SIGNATURES_MIRROR: 'none' });
  t.match(refused, {
    code: 2,
    stderr: /nothing was changed: freshclam is not installed \(`--yes` installs it; .*clamav-freshclam/,
  });
  const unasked = await run(t, ['update', '--yes', '--into', into, '--from', from], { PATH });
  t.equal(unasked.code, 0, unasked.stderr);
  t.match(unasked.stderr, "Installing with apt-get, to fetch ClamAV's signatures: clamav-freshclam");
  t.strictSame(contentOf(into), { 'own.ndb': NEW });

  const answers: [answer: string, path: string, shown: RegExp][] = [
    ['n\n', machineWithoutFreshclam(t), /nothing was changed: freshclam is not installed/],
    // Ctrl-D.
    ['\x04', machineWithoutFreshclam(t), /nothing was changed: freshclam is not installed/],
    ['y\n', machineWithoutFreshclam(t), /OK: 2 signatures/],
  ];
  for (const [answer, path, shown] of answers) {
    const command = `node ${mainPath} signatures update --into ${temporaryFolder(t)} --from ${from}`;
    const terminal = spawn('/usr/bin/script', ['-qec', command, '/dev/null'], {
      env: { PATH: path, SHELL: '/bin/sh' },
    });
    t.teardown(() => terminal.kill('SIGKILL'));
    let said = '';
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const ended = once(terminal, 'exit');
    await until(() => said.includes('is not installed. Install it with apt-get? [y/N]'));
    terminal.stdin.write(answer);
    await until(() => shown.test(said));
    await ended;
  }
});

t.test('an import takes a folder over what is there, if all of it loads', async (t) => {
  const into = databaseFolder(t, { 'a.ndb': OLD, 'kept.hdb': `${'b'.repeat(32)}:10:Test.Kept\n` });
  const before = contentOf(into);
  const bad = await run(t, ['update', '--into', into, '--from', databaseFolder(t, { 'a.ndb': NEW, 'b.ldb': 'x\n' })]);
  t.equal(bad.code, 2);
  t.strictSame(contentOf(into), before);
  const none = await run(t, ['update', '--into', into, '--from', databaseFolder(t, { 'a.txt': NEW })]);
  t.equal(none.code, 2);
  t.match(none.stderr, 'there is no signature database in');
  const from = databaseFolder(t, { 'a.ndb': NEW, 'more.hdb': `${'c'.repeat(32)}:10:Test.More\n` });
  const good = await run(t, ['update', '--into', into, '--from', from]);
  t.equal(good.code, 0, good.stderr);
  t.match(good.stdout, /^OK: 4 signatures/);
  t.strictSame(contentOf(into), { ...before, ...contentOf(from) });
});

t.test('what an update that was killed has left goes with a later one', async (t) => {
  const into = databaseFolder(t, { 'a.ndb': OLD });
  for (const name of ['.update-killed', '.update-running']) {
    mkdirSync(join(into, name));
    writeFileSync(join(into, name, 'b.ndb'), NEW);
  }
  const longAgo = new Date(Date.now() - 25 * 3_600_000);
  utimesSync(join(into, '.update-killed'), longAgo, longAgo);
  const good = await run(t, ['update', '--into', into, '--from', databaseFolder(t, { 'a.ndb': NEW })]);
  t.equal(good.code, 0, good.stderr);
  t.strictSame(contentOf(into), { 'a.ndb': NEW, '.update-running': 'folder' });
});

t.test('a link in the target folder is replaced, and what it points to left alone', async (t) => {
  const elsewhere = databaseFolder(t, { 'a.ndb': OLD });
  const into = temporaryFolder(t);
  symlinkSync(join(elsewhere, 'a.ndb'), join(into, 'a.ndb'));
  const good = await run(t, ['update', '--into', into, '--from', databaseFolder(t, { 'a.ndb': NEW })]);
  t.equal(good.code, 0, good.stderr);
  t.strictSame(contentOf(elsewhere), { 'a.ndb': OLD });
  t.strictSame(contentOf(into), { 'a.ndb': NEW });
});
