// The access log: a line for each request, in JSON and in the common format of web servers; off, unless it is asked for.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { startPostgres } from '../fixtures/postgres.js';
import { openRaw } from '../fixtures/raw-http.js';
import { API_KEY, startServer, type TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const postgres = await startPostgres({ t });

interface Tried {
  readonly server: TestServer;
  /** Those that came since the last call, when so many are there. */
  lines(count: number): Promise<readonly string[]>;
}

async function start(format: 'json' | 'common'): Promise<Tried> {
  const path = join(temporaryFolder(t), 'access.log');
  const env = { DATABASE_URL: await postgres.database(), ACCESS_LOG: format, ACCESS_LOG_FILE: path };
  const server = await startServer({ t, env });
  let read = 0;
  const lines = (): string[] =>
    readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.includes('/readyz'))
      .slice(read);
  return {
    server,
    async lines(count) {
      const fresh = await until(() => lines().length >= count && lines());
      read += fresh.length;
      return fresh;
    },
  };
}

const tried = { json: await start('json'), common: await start('common') };

t.test('in JSON each request has its route, status, size, time and address, and nothing of its query', async (t) => {
  const { server, lines } = tried.json;
  t.equal((await upload(server.url, 'clean')).status, 200);
  await fetch(`${server.url}/nowhere?token=secret`, {
    headers: { 'User-Agent': 'a "test"', 'X-Request-Id': 'of-this-test' },
  });
  await (await fetch(`${server.url}/sign-in`)).arrayBuffer();
  const [first, second, third] = (await lines(3)).map((line) => Object(JSON.parse(line)));
  t.match(third, { method: 'GET', path: '/sign-in', route: 'GET /sign-in', status: 200 });
  t.match(first, {
    method: 'POST',
    path: '/api/v1/scans',
    route: 'POST /api/v1/scans',
    status: 200,
    address: '127.0.0.1',
  });
  t.match(first.time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  t.ok(first.answerBytes > 50 && first.millis >= 0);
  t.match(second, { path: '/nowhere', route: 'none', status: 404, agent: 'a "test"', requestId: 'of-this-test' });
  t.notMatch(JSON.stringify([first, second]), /secret|0123456789abcdef/);
});

t.test('a key that is deleted by its value is in no line', async (t) => {
  for (const format of ['json', 'common'] as const) {
    const { server, lines } = tried[format];
    await fetch(`${server.url}/web/keys/${API_KEY}`, { method: 'DELETE' });
    const [line = ''] = await lines(1);
    t.match(line, '/web/keys/{uuid}', format);
    t.notMatch(line, API_KEY, format);
  }
});

t.test('in the common format no request can break its line', async (t) => {
  const { server, lines } = tried.common;
  t.equal((await upload(server.url, 'clean')).status, 200);
  const raw = await openRaw(server.port);
  await raw.send('GET /a"b\\c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  await raw.answer();
  raw.end();
  const [first = '', second = ''] = await lines(2);
  t.match(
    first,
    /^127\.0\.0\.1 - - \[\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d \+0000\] "POST \/api\/v1\/scans HTTP\/1\.1" 200 \d+$/,
  );
  t.match(second, /"GET \/a\\"b\\\\c HTTP\/1\.1" 404 \d+$/);
});

t.test('a file that can not be written, or a pipe that nobody reads, stops the start', async (t) => {
  const folder = temporaryFolder(t);
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  for (const [path, code] of [
    [join(folder, 'missing', 'access.log'), 'ENOENT'],
    [pipe, 'ENXIO'],
  ] as const) {
    const env = { DATABASE_URL: await postgres.database(), ACCESS_LOG: 'json', ACCESS_LOG_FILE: path };
    const message = new RegExp(`ended with 69:\\n[\\s\\S]*ACCESS_LOG_FILE can't be written: ${code}`);
    await t.rejects(startServer({ env }), { message });
  }
});
