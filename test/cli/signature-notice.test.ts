// What a start says of the signatures: on a terminal after the account, with a command that works; elsewhere as a warning of the log.
import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { mainPath } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

t.test(
  'on a terminal a start says what the signatures are worth, and the command that it names fetches others',
  async (t) => {
    const directory = temporaryFolder(t);
    const env = { PATH: process.env['PATH'], PORT: '0', ADMIN_PORT: '0', DATA_DIR: join(directory, 'my data') };
    const terminal = spawn('script', ['-qec', `${process.execPath} ${mainPath} serve`, '/dev/null'], {
      env,
      cwd: directory,
    });
    t.teardown(() => terminal.kill('SIGKILL'));
    const ended = new Promise((resolve) => terminal.once('close', resolve));
    let shown = '';
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
    });
    await until(() => shown.includes('The dashboard: '));
    t.ok(shown.indexOf('The first account was made') < shown.indexOf('16 signatures serve'), 'after the account');
    t.match(shown, /16 signatures serve, only those that ship with Sluice: .* call nearly all malware clean\./);
    t.match(shown, /The dashboard: http:\/\/127\.0\.0\.1:\d+\r?\n/);
    const command = /^ {2}(DATA_DIR=.* signatures update)\r?$/m.exec(shown)?.[1] ?? '';
    const from = databaseFolder(t, { 'a.ndb': bodySignature('Test.New', 'a new mark') });
    const { stdout } = await promisify(execFile)('sh', ['-c', `${command} --from ${from}`], {
      cwd: directory,
      env: { PATH: env.PATH },
    });
    t.match(stdout, join(env.DATA_DIR, 'signatures', 'a.ndb'));
    // Ctrl-C, as somebody would type it.
    terminal.stdin.write('\x03');
    await ended;
  },
);

t.test('without a terminal it is a warning of the log, where there is something to do', async (t) => {
  const server = await startServer({ t });
  t.match(
    await server.printed(/^(.*the signatures are not enough.*)$/m),
    /"level":40.*"standing":"starter".*signatures update/,
  );
  t.match(await (await fetch(`${server.url}/readyz`)).json(), { signatures: 'starter' });
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Own', 'my mark') });
  const own = await startServer({ t, env: { SIGNATURES_DIR: folder } });
  t.match(await (await fetch(`${own.url}/readyz`)).json(), { signatures: 'other' });
  t.notMatch(own.output(), 'the signatures are not enough');
});
