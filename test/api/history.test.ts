// What a scan leaves behind: one row with the status of its answer, also when it failed, when its client left, and when the server died.
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import postgres from 'postgres';
import t from 'tap';
import { makeAccount } from '../fixtures/another-account.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { startPostgres } from '../fixtures/postgres.js';
import { filePart, openRaw, scanRequest } from '../fixtures/raw-http.js';
import { eicar } from '../fixtures/samples.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import type { Tap } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';
import { postForm, upload } from '../fixtures/upload.js';

const database = await startPostgres({ t });

interface Stored {
  readonly id: string;
  readonly filename: string;
  readonly infected: boolean;
  readonly virus_name: string | null;
  readonly status: number;
  readonly error: string | null;
  readonly env: string;
}

interface Setting {
  readonly server: TestServer;
  /** Resolves with the rows since the last call, in the order of their scans, once there are so many. */
  rows(count: number): Promise<Stored[]>;
}

async function start(t: Tap, env: Record<string, string>): Promise<Setting> {
  const url = await database.database();
  const server = await startServer({ t, env: { DATABASE_URL: url, ...env } });
  const sql = postgres(url, { max: 1 });
  t.teardown(() => sql.end());
  let read = 0;
  return {
    server,
    async rows(count) {
      const fresh = await until(async () => {
        const rows = await sql<Stored[]>`
          SELECT id, filename, infected, virus_name, status, error, env FROM scans ORDER BY id OFFSET ${read}`;
        return rows.length >= count && [...rows];
      });
      read += fresh.length;
      return fresh;
    },
  };
}

const { server, rows } = await start(t, {
  APP_ENV: 'STAGING',
  REGISTRATION: 'open',
  PLANS: 'FREE:6,BUSINESS:1000000',
  SCAN_THREADS: '1',
  HISTORY_JOURNAL_MB: '1',
});

t.test('each admitted scan has one row, whose id, status and verdict are those of its answer', async (t) => {
  const { key } = await makeAccount(server.url, 'six@example.com');
  const answers = [
    await upload(server.url, 'hello', { filename: 'clean.txt', key }),
    await upload(server.url, eicar(), { filename: 'eicar.com', key }),
    await upload(server.url, '', { filename: 'empty.txt', key }),
    await upload(server.url, Buffer.alloc(10_485_761), { filename: 'large.bin', key }),
    await postForm(server.url, new FormData(), key),
  ];
  const wrongType = await fetch(`${server.url}/api/v1/scans`, {
    method: 'POST',
    headers: { 'X-API-KEY': key },
  });
  const refused = [
    await upload(server.url, 'hello', { key: null }),
    await upload(server.url, 'hello', { key: 'f'.repeat(32) }),
    await upload(server.url, 'hello', { key }),
  ];
  t.strictSame(
    refused.map(({ status, headers }) => [status, headers.get('x-scan-id')]),
    [
      [401, null],
      [401, null],
      [429, null],
    ],
  );
  const stored = await rows(6);
  t.strictSame(
    stored.map(({ id, status }) => [id, status]),
    [...answers, wrongType].map(({ status, headers }) => [headers.get('x-scan-id'), status]),
  );
  t.match(
    stored,
    [
      { filename: 'clean.txt', infected: false, virus_name: null, status: 200, error: null, env: 'STAGING' },
      { filename: 'eicar.com', infected: true, virus_name: 'Sluice.Test.EICAR.UNOFFICIAL', status: 200, error: null },
      { infected: false, status: 400, error: 'File is empty' },
      { infected: false, status: 400, error: 'File size exceeds limit: 10MB' },
      { filename: '', infected: false, status: 400, error: 'Malformed multipart body: ' },
      { filename: '', infected: false, status: 415, error: 'Expected multipart/form-data' },
    ].map((one, index) => (index === 4 ? { ...one, error: String } : one)),
  );
});

t.test('a scan that the engine could not finish is in the history under its name, never as clean', async (t) => {
  const { server, rows } = await start(t, { SCAN_TIMEOUT_MS: '100', ENCRYPTED_ARCHIVES: 'reject' });
  const nested = Buffer.alloc(10 * 1024 * 1024, 'abcdefghij');
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) => upload(server.url, nested, { filename: `slow-${index}.txt` })),
  );
  const stored = await rows(12);
  const byId = new Map(stored.map((row) => [row.id, row]));
  for (const { status, headers, body } of answers) {
    t.match(byId.get(headers.get('x-scan-id') ?? ''), {
      status,
      filename: /^slow-/,
      infected: false,
      error: status === 200 ? null : body['message'],
    });
  }
});

t.test('a client that leaves in the middle of its upload has a row that says so', async (t) => {
  const whole = scanRequest(filePart(Buffer.alloc(100_000, 'x'), 'left.txt'));
  const connection = await openRaw(server.port);
  await connection.send(whole.subarray(0, 50_000));
  connection.end();
  await once(connection.socket, 'close');
  t.match(await rows(1), [{ status: 499, error: 'The client went away', infected: false, virus_name: null }]);
});

t.test(
  'a client that leaves while its scan waits or runs has one row, and no clean one unless it was scanned',
  async (t) => {
    const content = Buffer.alloc(5 * 1024 * 1024, 'abcdefghij');
    const staying = Array.from({ length: 3 }, () => upload(server.url, content, { filename: 'stays.txt' }));
    const leaving = Array.from({ length: 3 }, async () => {
      const connection = await openRaw(server.port);
      await connection.send(scanRequest(filePart(content, 'leaves.txt')));
      connection.end();
    });
    await Promise.all([...staying, ...leaving]);
    const stored = await rows(6);
    t.equal(stored.length, 6);
    for (const row of stored.filter(({ filename }) => filename !== 'stays.txt')) {
      const wasScanned = row.status === 200 && row.error === null;
      const wasLeft = row.status === 499 && row.error === 'The client went away';
      t.ok(wasScanned || wasLeft, JSON.stringify(row));
    }
  },
);

t.test('a server that is killed behind its answer has the row; one that stops leaves nothing to replay', async (t) => {
  const url = await database.database();
  const directory = temporaryFolder(t);
  const sql = postgres(url, { max: 1 });
  t.teardown(() => sql.end());
  const ids: unknown[] = [];
  for (const signal of ['SIGKILL', 'SIGKILL', 'SIGTERM'] as const) {
    const server = await startServer({ directory, env: { DATABASE_URL: url } });
    const answers = await Promise.all(Array.from({ length: 5 }, () => upload(server.url, 'hello')));
    ids.push(...answers.map(({ headers }) => headers.get('x-scan-id')));
    await server.stop(signal);
  }
  const journals = readdirSync(join(directory, 'data', 'journal'));
  t.strictSame(journals, [], 'nothing waits after an orderly stop');
  const stored = await sql`SELECT id FROM scans ORDER BY id`;
  t.strictSame(
    stored.map(({ id }) => id),
    [...ids].sort(),
  );
});

t.test('a database that is away holds up no scan; a full journal does, with 503, and nothing is lost', async (t) => {
  await upload(server.url, 'hello', { filename: 'first.txt' });
  await rows(1);
  database.pause();
  t.teardown(() => database.resume());
  const name = `${'n'.repeat(250)}.txt`;
  const kept: (string | null)[] = [];
  let refused: Awaited<ReturnType<typeof upload>> | null = null;
  while (refused === null) {
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => upload(server.url, 'hello', { filename: name })),
    );
    for (const answer of answers) {
      if (answer.status === 200) kept.push(answer.headers.get('x-scan-id'));
      else refused = answer;
    }
  }
  t.match(
    { status: refused.status, body: refused.body },
    {
      status: 503,
      body: { error: 'Service unavailable', message: 'The history journal is full' },
    },
  );
  t.equal(refused.headers.get('retry-after'), '5');
  t.equal(refused.headers.get('x-scan-id'), null, 'a scan that is not in the history has no id');
  t.ok(kept.length > 1000);
  database.resume();
  const stored = await rows(kept.length);
  t.same(new Set(stored.map(({ id }) => id)), new Set(kept));
  await until(async () => (await upload(server.url, 'hello')).status === 200);
});
