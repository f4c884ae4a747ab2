// What an operator sees of a running server: /metrics on a port of its own, and `sluice status`.
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { mainPath } from '../../src/paths.js';
import { openPostgres } from '../../src/store/postgres.js';
import { scanUrlLater } from '../fixtures/async-scans.js';
import { start } from '../fixtures/command.js';
import { deferred } from '../fixtures/deferred.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { portRefusedByFetch } from '../fixtures/free-port.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startRelay } from '../fixtures/relay.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const postgres = await startPostgres();
/** What it asks for under /held is answered when the test says so; a webhook is answered with `receiverSays`. */
const held = deferred<void>();
let receiverSays = 200;
const origin = await startOrigin(async ({ path, send, end }) => {
  if (path === '/held') await held.promise;
  await send(response('hello there', '', path === '/hook' ? `${receiverSays} As told` : '200 OK'));
  end();
});
t.teardown(() => origin.stop());
const server = await startServer({
  env: {
    DATABASE_URL: await postgres.database(),
    URL_ALLOW_NETWORKS: '127.0.0.1/32',
    URL_PORTS: String(origin.port),
  },
});
const metricsUrl = `http://127.0.0.1:${await server.printed(/"port":(\d+),"msg":"metrics"/)}`;
t.teardown(async () => {
  await server.stop();
  await postgres.stop();
});

/** Values by name and labels. */
async function metrics(): Promise<Map<string, number>> {
  const response = await fetch(`${metricsUrl}/metrics`);
  t.equal(response.status, 200);
  t.match(response.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

function status(host: string, path = '/metrics', method = 'GET'): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request(`${metricsUrl}${path}`, { method, headers: { Host: host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

t.test('scans are counted by what came of them', async (t) => {
  for (const content of ['clean', 'clean', eicar()]) t.equal((await upload(server.url, content)).status, 200);
  t.equal((await upload(server.url, '')).status, 400);
  const values = await metrics();
  const [engine = ''] = [...values.keys()].flatMap(
    (name) => /^sluice_engine_info\{engine="(clamav\/[^;]+);/.exec(name)?.[1] ?? [],
  );
  t.match(engine, /^clamav\/\d/);
  const counted = (outcome: string, cache: string, by = engine): number | undefined =>
    values.get(`sluice_scans_total{outcome="${outcome}",engine="${by}",cache="${cache}"}`);
  t.equal(counted('clean', 'miss'), 1);
  t.equal(counted('clean', 'hit'), 1);
  t.equal(counted('infected', 'miss'), 1);
  t.equal(counted('rejected', 'none', 'none'), 1);
  t.equal(values.get('sluice_scan_failures_total{failure="fileEmpty"}'), 1);
  t.equal(values.get('sluice_scan_seconds_count{size="4KB"}'), 2);
  const types = [...values.keys()].flatMap(
    (name) => /^sluice_scans_by_type_total\{type="(\w+)"\}/.exec(name)?.[1] ?? [],
  );
  t.equal(
    types.reduce((sum, type) => sum + (values.get(`sluice_scans_by_type_total{type="${type}"}`) ?? 0), 0),
    2,
    'what was known has no time',
  );
  for (const type of types) t.match(type, /^(CL_TYPE_\w+|unknown)$/);
  for (const type of types) t.ok((values.get(`sluice_scan_seconds_by_type_total{type="${type}"}`) ?? 0) > 0);
  const requests = (status: string, route = 'POST /api/v1/scans'): number | undefined =>
    values.get(`sluice_http_requests_total{route="${route}",status="${status}"}`);
  t.equal(requests('200'), 3);
  t.equal(requests('400'), 1);
  t.equal(values.get('sluice_signature_loads_total{outcome="loaded"}'), 1);
  t.equal(values.get('sluice_store_up'), 1);
  t.equal(values.get('sluice_scanned_bytes_total'), 10 + eicar().length);
  // Two contents, and for each that this account has scanned it.
  t.equal(values.get('sluice_verdict_cache_entries'), 4);
  t.equal(values.get('sluice_signatures'), 16);
  t.equal(values.get('sluice_signatures_starter'), 1);
  for (const name of [
    'sluice_scans_waiting',
    'sluice_scan_threads_hung',
    'sluice_admission_degraded',
    'sluice_engine_stands_in',
    'sluice_journal_damaged_files',
  ]) {
    t.equal(values.get(name), 0, name);
  }
});

t.test('what YARA rules have answered is marked, in the metrics and in the history', async (t) => {
  const url = await postgres.database();
  const alone = await startServer({ t, env: { DATABASE_URL: url, ENGINE: 'yara' } });
  for (const content of ['clean', eicar()]) t.equal((await upload(alone.url, content)).status, 200);
  const text = await alone.metrics();
  for (const outcome of ['clean', 'infected']) {
    t.match(text, `sluice_scans_total{outcome="${outcome}",engine="yara-x/1.7.1",cache="miss"} 1`);
  }
  const { sql, close } = await openPostgres({ kind: 'url', url });
  t.teardown(close);
  const engines = async () => (await sql<{ engine: string }[]>`SELECT engine FROM scans`).map(({ engine }) => engine);
  await until(async () => (await engines()).length >= 2);
  t.strictSame(await engines(), ['yara-x/1.7.1', 'yara-x/1.7.1']);
});

t.test('nothing else is on that port, and it is no API for pages in a browser', async (t) => {
  t.equal(await status('127.0.0.1', '/livez'), 404);
  t.equal(await status('localhost:9090'), 200);
  t.equal(await status('rebound.example'), 403);
  t.equal(await status('127.0.0.1', '/metrics', 'POST'), 405);
  t.equal((await fetch(`${server.url}/metrics`)).status, 404, 'the service itself does not tell');
});

t.test('requests are counted by the template of their route, and what has none is not told apart', async (t) => {
  const before = (await metrics()).get('sluice_http_requests_total{route="none",status="404"}') ?? 0;
  for (const path of ['/livez', '/api/v1/scans/one', '/api/v1/scans/two', '/nowhere', '/elsewhere']) {
    await fetch(`${server.url}${path}`);
  }
  const values = await metrics();
  t.equal(values.get('sluice_http_requests_total{route="GET /livez",status="200"}'), 1);
  t.equal(values.get('sluice_http_requests_total{route="GET /api/v1/scans/{id}",status="401"}'), 2);
  t.equal(values.get('sluice_http_requests_total{route="none",status="404"}'), before + 2);
});

t.test('the journal shows its depth and age while the database is away, here and in `sluice status`', async (t) => {
  const run = () => start(t, mainPath, ['status'], { env: { PORT: String(server.port) } }).ended;
  t.match(await run(), { code: 0, stdout: /^service {4}ready\nengine {5}ready, signatures 16, / });
  postgres.pause();
  await until(async () => (await metrics()).get('sluice_store_up') === 0);
  t.equal((await upload(server.url, 'recorded later')).status, 200);
  t.equal((await metrics()).get('sluice_journal_rows'), 1);
  const away = await run();
  t.match(away.stdout, /history {4}ready; 1 rows \(\d+ bytes\) wait for the database, the oldest for \d+\.\d s\n/);
  postgres.resume();
  await until(async () => (await metrics()).get('sluice_journal_rows') === 0);
  t.equal((await metrics()).get('sluice_journal_oldest_seconds'), 0);
});

t.test('commands reach a server on a port that fetch refuses', async (t) => {
  const relay = await startRelay(server.port, await portRefusedByFetch());
  t.teardown(() => relay.stop());
  const run = (...args: string[]) => start(t, mainPath, args, { env: { PORT: String(relay.port) } }).ended;
  t.match(await run('status'), { code: 0, stdout: /^service {4}ready\n/ });
  t.match((await run('signatures', 'status')).stdout, /The server/);
});

t.test('a start with damaged files of the journal, and a port for metrics that is taken', async (t) => {
  const directory = temporaryFolder(t);
  const folder = join(directory, 'data', 'journal', '00000000000000aa');
  mkdirSync(join(folder, '000000001.log'), { recursive: true });
  writeFileSync(join(folder, '000000002.log'), 'not of ours');
  const { port } = new URL(metricsUrl);
  const env = { DATABASE_URL: await postgres.database(), ADMIN_PORT: port };
  const second = await startServer({ t, directory, env });

  t.test('a port that is taken is tried again, and keeps nobody from scanning', async (t) => {
    t.equal(await second.printed(/set (\S+) to a free one","msg":"there are no metrics yet"/), 'ADMIN_PORT');
    t.equal((await upload(second.url, 'x')).status, 200);
  });

  t.test('a damaged file stops neither start nor scans, and is shown wherever somebody looks', async (t) => {
    t.equal((await upload(second.url, 'x')).status, 200);
    await until(async () => {
      const { status: whole, history } = Object(await (await fetch(`${second.url}/readyz`)).json());
      t.equal(whole, 'ready');
      return history.damagedFiles === 2 && history.waitingRows === 0;
    });
    const { stdout } = await start(t, mainPath, ['status'], { env: { PORT: String(second.port) } }).ended;
    t.match(stdout, /; 2 damaged files of the journal were put aside\n/);
    t.match(second.output(), /"level":50,.*000000001\.log.*"msg":"the history journal is damaged/);
  });
});

t.test('accepted scans and deliveries that wait are counted, and said to be ready or not', async (t) => {
  const made = await fetch(`${server.url}/api/v1/webhooks`, {
    method: 'POST',
    body: JSON.stringify({ url: `http://127.0.0.1:${origin.port}/hook` }),
    headers: { 'X-API-KEY': API_KEY, 'Content-Type': 'application/json' },
  });
  t.equal(made.status, 201);
  const { id: webhookId } = z.object({ id: z.string() }).parse(await made.json());
  const value = async (name: string) => (await metrics()).get(name);
  const ready = async () => (await fetch(`${server.url}/readyz`)).json();
  t.equal(await value('sluice_accepted_scans'), 0);
  t.equal(await value('sluice_accepted_oldest_seconds'), 0);
  t.equal((await scanUrlLater(server.url, `http://127.0.0.1:${origin.port}/held`)).status, 202);
  t.equal(await value('sluice_accepted_scans'), 1);
  t.ok(Number(await value('sluice_accepted_bytes')) > 0);
  await until(async () => Number(await value('sluice_accepted_oldest_seconds')) > 0);
  // That the database did not answer, as in a test above, is remembered for some seconds.
  await until(async () => z.object({ webhooks: z.unknown() }).parse(await ready()).webhooks !== null);
  t.match(await ready(), { status: 'ready', accepted: { waiting: 1 }, webhooks: { waiting: 0, overdueMs: 0 } });
  receiverSays = 500;
  held.resolve();
  await until(async () => (await value('sluice_accepted_scans')) === 0);
  await until(async () => (await value('sluice_webhook_attempts_total{outcome="failed"}')) === 1);
  // It is remembered for some seconds what waits, so it may be of before that attempt.
  await until(async () => {
    const now = await metrics();
    return now.get('sluice_webhook_deliveries_waiting') === 1 && now.get('sluice_webhook_overdue_seconds') === 0;
  });
  t.match(await ready(), { accepted: { waiting: 0, bytes: 0 }, webhooks: { waiting: 1 } });
  receiverSays = 204;
  await until(async () => (await value('sluice_webhook_attempts_total{outcome="delivered"}')) === 1);
  await until(async () => (await value('sluice_webhook_deliveries_waiting')) === 0);
  const ended = await fetch(`${server.url}/api/v1/webhooks/${webhookId}`, {
    method: 'DELETE',
    headers: { 'X-API-KEY': API_KEY },
  });
  t.equal(ended.status, 204);
});
