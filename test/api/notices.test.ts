// What is said beside a verdict and what ClamAV says the content is stay with it, over the wire and on both stores: in the list, the detail and the CSV of the history; and what has no verdict says so.
import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { zip } from '../fixtures/archives.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRedis } from '../fixtures/redis.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { ask, bearer, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

interface Listed {
  readonly filename: string;
  readonly infected: boolean;
  readonly notices: readonly string[];
}

async function notices(t: Test, env: Readonly<Record<string, string>>): Promise<void> {
  const server = await startServer({ env });
  t.teardown(() => server.stop('SIGKILL'));
  const secret = zip([{ name: 'secret.txt', content: randomBytes(100), encrypted: true }]);
  const answers = [
    await upload(server.url, secret, { filename: 'secret.zip' }),
    // From memory.
    await upload(server.url, secret, { filename: 'again.zip' }),
    await upload(server.url, 'plain text', { filename: 'plain.txt' }),
    await upload(server.url, eicar(), { filename: 'eicar.com' }),
    await upload(server.url, '', { filename: 'empty.txt' }),
  ];
  t.strictSame(
    answers.map(({ status, headers }) => [status, headers.get('x-scan-notice'), headers.get('x-scan-type')]),
    [
      [200, 'encrypted', 'CL_TYPE_ZIP'],
      [200, 'encrypted', 'CL_TYPE_ZIP'],
      [200, null, 'CL_TYPE_TEXT_ASCII'],
      [200, null, 'CL_TYPE_TEXT_ASCII'],
      [400, null, null],
    ],
  );
  const [secretId, againId, , infectedId, failedId] = answers.map(({ headers }) => headers.get('x-scan-id'));
  const { accessToken } = await signIn(server.url);
  const get = async (path: string): Promise<unknown> =>
    (await ask(`${server.url}/web/scans/${path}`, { headers: bearer(accessToken) })).body;
  const list = async (filters: string): Promise<Listed[]> =>
    Object(await get(`stats?sort=creationDate,asc${filters}`)).content;
  await until(async () => (await list('')).length === answers.length);
  const names = async (filters: string): Promise<string[]> => (await list(filters)).map(({ filename }) => filename);

  t.match(await list(''), [
    { filename: 'secret.zip', infected: false, notices: ['encrypted'] },
    { filename: 'again.zip', notices: ['encrypted'] },
    { filename: 'plain.txt', notices: [] },
    { filename: 'eicar.com', infected: true, notices: [] },
    { filename: 'empty.txt', infected: false, notices: [] },
  ]);
  for (const id of [secretId, againId]) {
    t.match(await get(`${id}`), { infected: false, notices: ['encrypted'], detectedType: 'CL_TYPE_ZIP' });
  }
  t.match(await get(`${infectedId}`), { infected: true, detectedType: 'CL_TYPE_TEXT_ASCII' });
  t.match(await get(`${failedId}`), { infected: null, status: '400', error: 'File is empty', detectedType: null });
  const byKey = await ask(`${server.url}/api/v1/scans?verdict=infected`, { headers: { 'X-API-KEY': API_KEY } });
  t.match(byKey.body, { content: [{ detectedType: 'CL_TYPE_TEXT_ASCII' }] });
  t.strictSame(await names('&infected=false'), ['secret.zip', 'again.zip', 'plain.txt']);
  t.strictSame(await names('&infected=true'), ['eicar.com']);
  t.strictSame(await names('&verdict=clean&q=A'), ['again.zip', 'plain.txt']);
  t.strictSame(await names('&verdict=infected'), ['eicar.com']);
  t.strictSame(await names('&verdict=none'), ['empty.txt']);
  t.strictSame(await names(`&sha256=${answers[2]?.headers.get('x-scan-sha256')}`), ['plain.txt']);

  const csv = await fetch(`${server.url}/web/scans/stats/export`, { headers: bearer(accessToken) });
  const [head = '', ...rows] = (await csv.text())
    .trim()
    .split('\r\n')
    .map((line) => line.split(','));
  const cells = rows.map((row) =>
    ['filename', 'infected', 'notices', 'detectedType'].map((name) => row[head.indexOf(name)]),
  );
  t.strictSame(cells.reverse(), [
    ['secret.zip', 'false', 'encrypted', 'CL_TYPE_ZIP'],
    ['again.zip', 'false', 'encrypted', 'CL_TYPE_ZIP'],
    ['plain.txt', 'false', '', 'CL_TYPE_TEXT_ASCII'],
    ['eicar.com', 'true', '', 'CL_TYPE_TEXT_ASCII'],
    ['empty.txt', '', '', ''],
  ]);
}

t.test('notices on the embedded store', (t) => notices(t, {}));

t.test('notices on Postgres, with Redis', async (t) => {
  const [postgres, redis] = [await startPostgres(), await startRedis()];
  t.teardown(() => postgres.stop());
  t.teardown(() => redis.stop());
  await notices(t, { DATABASE_URL: await postgres.database(), REDIS_URL: redis.url });
});

t.test('what YARA rules say has a notice, and no type', async (t) => {
  const server = await startServer({ env: { ENGINE: 'yara' } });
  t.teardown(() => server.stop('SIGKILL'));
  const { headers } = await upload(server.url, 'plain');
  t.equal(headers.get('x-scan-notice'), 'raw-content');
  t.equal(headers.get('x-scan-type'), null, 'rules know no types');
  const token = bearer((await signIn(server.url)).accessToken);
  const { body } = await until(async () => {
    const answer = await ask(`${server.url}/web/scans/${headers.get('x-scan-id')}`, { headers: token });
    return answer.status === 200 && answer;
  });
  t.match(body, { notices: ['raw-content'], detectedType: null });
});
