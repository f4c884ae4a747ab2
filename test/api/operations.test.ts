// Starting, telling how it is, and stopping: readiness with good, damaged and missing signatures, restart, graceful stop, wrong configuration.
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { openListener, whyNot } from '../../src/http/connections.js';
import { mainPath } from '../../src/paths.js';
import { readFirstAccount } from '../fixtures/first-account.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

async function get(url: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url);
  return { status: response.status, body: await response.json() };
}

// For all that need no settings; the last test stops it.
const server = await startServer();
t.teardown(() => server.stop('SIGKILL'));

t.test('a healthy server is live, ready, and knows its versions', async (t) => {
  t.match(await get(`${server.url}/livez`), { status: 200, body: { status: 'ok' } });
  t.match(await get(`${server.url}/readyz`), {
    status: 200,
    body: {
      status: 'ready',
      engine: { status: 'ready', signatures: Number },
      store: { status: 'ready' },
      history: { status: 'ready', waitingRows: 0, waitingBytes: 0, oldestAgeMs: 0, damagedFiles: 0 },
    },
  });
  t.match(await get(`${server.url}/version`), {
    status: 200,
    body: {
      sluice: /^\d+\.\d+\.\d+$/,
      sandbox: { seccomp: true, landlock: Number },
      engine: /^clamav\//,
      signatures: { version: String, count: Number },
    },
  });
  const head = await fetch(`${server.url}/livez`, { method: 'HEAD' });
  t.equal(head.status, 200);
  t.equal(await head.text(), '');
});

t.test('damaged, empty and missing signatures are said, and the process lives on', async (t) => {
  const directory = temporaryFolder(t);
  const folders: Record<string, string> = { missing: join(directory, 'none'), empty: join(directory, 'empty') };
  const write = (name: string, file: string, content: string): void => {
    const folder = join(directory, name);
    mkdirSync(folder);
    if (file !== '') writeFileSync(join(folder, file), content);
    folders[name] = folder;
  };
  write('empty', '', '');
  write('malformed', 'broken.ldb', 'this is no signature\n');
  write('truncated', 'daily.cvd', 'ClamAV-VDB:01 Jan 2026 00-00 +0000:1:1:90:aaaa');
  for (const [name, folder] of Object.entries(folders)) {
    const server = await startServer({ env: { SIGNATURES_DIR: folder }, untilReady: false });
    const answer = await until(async () => {
      const now = await get(`${server.url}/readyz`);
      return !JSON.stringify(now.body).includes('"loading"') && now;
    });
    t.match(
      answer,
      { status: 503, body: { status: 'unavailable', engine: { status: 'failed', message: String } } },
      name,
    );
    const said = JSON.stringify(answer.body);
    t.match(said, basename(folder), `${name}: the message names the folder`);
    t.notMatch(said, directory, `${name}: and not where it is`);
    t.equal((await get(`${server.url}/livez`)).status, 200);
    t.equal((await upload(server.url, 'x')).status, 503);
    t.equal(await server.stop(), 0);
  }
});

t.test('the first start leaves a key and a curl line that works; a restart keeps the account', async (t) => {
  const directory = temporaryFolder(t);
  const first = await startServer({ directory, env: { BOOTSTRAP_API_KEY: '', BOOTSTRAP_PASSWORD: '' } });
  const { key, url } = readFirstAccount(await first.printed(/^(.*first-account\.txt.*)$/m));
  t.equal(url, `${first.url}/api/v1/scans`);
  t.notMatch(first.output(), key);
  t.equal((await upload(first.url, 'x', { key })).status, 200);
  t.equal(await first.stop(), 0);
  const second = await startServer({ directory, env: { BOOTSTRAP_API_KEY: '', BOOTSTRAP_PASSWORD: '' } });
  t.notMatch(second.output(), 'first-account');
  t.equal((await upload(second.url, 'x', { key })).status, 200);
  t.equal(await second.stop(), 0);
});

t.test('a wrong configuration is reported at once and whole, without values', async (t) => {
  const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((resolve) => {
    const env = { PATH: process.env['PATH'], PORT: 'eighty', SCAN_THREADS: '0', BOOTSTRAP_API_KEY: 'my-secret' };
    execFile(process.execPath, [mainPath, 'serve'], { env }, (error, _stdout, stderr) =>
      resolve({ code: error?.code, stderr }),
    );
  });
  t.equal(code, 78);
  for (const name of ['PORT', 'SCAN_THREADS', 'BOOTSTRAP_API_KEY']) t.match(stderr, name);
  t.notMatch(stderr, 'my-secret');
});

t.test('a place that it can not listen at is reported, with what to do', async (t) => {
  await t.rejects(startServer({ env: { PORT: String(server.port) } }), /another program listens there; set PORT/);
  await t.rejects(openListener('192.0.2.1', 0), { message: /no such address; set HOST to/ });
  await t.rejects(openListener('192.0.2.1', 0, 'ICAP_PORT'), { message: /no such address$/ });
  const withCode = (code: string) => whyNot(Object.assign(new Error('listen'), { code }));
  t.match(withCode('EACCES'), /set PORT to a higher one$/);
  t.match(withCode('ENOTFOUND'), /set HOST to an address of this machine$/);
});

t.test(
  'who wants to report a vulnerability finds the contact that the operator has set, and nothing where there is none',
  async (t) => {
    const contact = 'mailto:security@example.org';
    const told = await startServer({ t, env: { SECURITY_CONTACT: contact }, untilReady: false });
    const answer = await fetch(`${told.url}/.well-known/security.txt`);
    t.equal(answer.status, 200);
    t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
    const [, said, expires = ''] = /^Contact: (.+)\nExpires: (.+)\n$/.exec(await answer.text()) ?? [];
    t.equal(said, contact);
    const days = (Date.parse(expires) - Date.now()) / (24 * 60 * 60 * 1000);
    t.ok(days > 170 && days < 365, expires);
    t.equal((await fetch(`${server.url}/.well-known/security.txt`)).status, 404);
  },
);

t.test('a stop answers what runs', async (t) => {
  const connection = await openRaw(server.port);
  const request = scanRequest(filePart(Buffer.alloc(3_000_000, 'x'), 'last.bin'));
  await connection.send(request.subarray(0, -1000));
  // The server has the request once it has answered a later one on another connection.
  await get(`${server.url}/livez`);
  const stopped = server.stop();
  await connection.send(request.subarray(-1000));
  const answer = await connection.answer();
  t.equal(answer?.status, 200);
  t.match(answer?.body, '"filename":"last.bin"');
  t.equal(await stopped, 0);
});
