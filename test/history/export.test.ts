// One scan with all that is known of it, and the filtered history as CSV, on both stores: the caller's rows, all of them, as data.
import { createRowStore } from '../../src/history/rows-to-database.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import { ALICE, BOB, rowAt, startHistoryServer } from '../fixtures/history.js';
import { onEachStore, open } from '../fixtures/stores.js';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const DAY_MS = 86_400_000;
/** More than two pages of what is read at a time. */
const ROWS = 2_300;
const NAMES = ['plain.txt', '=1+1', '+A1', '-2', '@SUM(A1)', '\tx', 'a,"b"\nc', '＝1', "it's", ' led', 'تقرير', '😀'];

function history(userId: string, count: number): ScanRow[] {
  return Array.from({ length: count }, (_, index) => {
    const failed = index % 5 === 4;
    return rowAt(NOW - index * 3_600_000, {
      userId,
      filename: NAMES[index % NAMES.length] ?? '',
      virusName: index % 5 === 0 ? 'Win.Test' : null,
      status: failed ? 422 : 200,
      error: failed ? 'Scan incomplete: a limit, "quoted"' : null,
      engine: failed ? null : 'clamav/1.4.6',
      sizeBytes: index % 7 === 0 ? null : index,
      sha256: index % 7 === 0 ? null : 'ab'.repeat(32),
    });
  });
}

/** RFC 4180. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = [[]];
  const cell = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n|$)/gy;
  for (let match = cell.exec(text); match !== null && cell.lastIndex <= text.length; match = cell.exec(text)) {
    const [, value = '', end] = match;
    rows.at(-1)?.push(value.startsWith('"') ? value.slice(1, -1).replaceAll('""', '"') : value);
    if (end === '\r\n') rows.push([]);
    if (end === '' || cell.lastIndex === text.length) break;
  }
  return rows.filter(({ length }) => length > 1);
}

onEachStore(async (t, store) => {
  const { sql } = await open(t, await store.target(t));
  const alices = history(ALICE, ROWS);
  const bobs = history(BOB, 3);
  const save = createRowStore(sql);
  for (let at = 0; at < ROWS; at += 256) await save(alices.slice(at, at + 256));
  await save(bobs);
  const { port, surprises } = await startHistoryServer(t, sql, () => NOW);
  const get = (path: string, userId = ALICE) =>
    fetch(`http://127.0.0.1:${port}/web/scans${path}`, { headers: { Authorization: `Bearer user:${userId}` } });

  t.test('one scan is given with its size, digest and engine, to its owner alone', async (t) => {
    const row = alices[1];
    const answer = await get(`/${row?.id}`);
    t.equal(answer.status, 200);
    t.strictSame(await answer.json(), {
      id: row?.id,
      filename: '=1+1',
      scanDurationMillis: 3,
      infected: false,
      virusName: null,
      env: 'PRODUCTION',
      status: '200',
      error: null,
      detectedType: 'CL_TYPE_PDF',
      notices: [],
      creationDate: '2026-11-21T11:00:00',
      lastUpdate: '2026-11-21T11:00:00',
      sizeInBytes: 1,
      sha256: 'ab'.repeat(32),
      engine: 'clamav/1.4.6',
      signatures: 'daily:27000',
      metadata: null,
      url: null,
      protocol: 'http',
      key: null,
    });
    t.match(await (await get(`/${alices[0]?.id}`)).json(), { sizeInBytes: null, sha256: null });
    const failed = alices.find(({ status }) => status !== 200);
    t.match(await (await get(`/${failed?.id}`)).json(), {
      infected: null,
      virusName: null,
      status: String(failed?.status),
    });
    for (const id of [bobs[0]?.id, '01a1d7c0-0000-7000-8000-000000000000', 'x', "' OR 1=1", '%00', ALICE]) {
      t.equal((await get(`/${encodeURIComponent(id ?? '')}`)).status, 404, String(id));
    }
  });

  t.test('all rows of the caller are in the file, the newest first, and no cell is a formula', async (t) => {
    const answer = await get('/stats/export');
    t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8');
    t.match(answer.headers.get('content-disposition'), /attachment; filename="[\w.-]+"/);
    const bytes = Buffer.from(await answer.arrayBuffer());
    t.strictSame([...bytes.subarray(0, 3)], [0xef, 0xbb, 0xbf]);
    const [head = [], ...rows] = parseCsv(bytes.toString('utf8', 3));
    t.equal(rows.length, ROWS);
    t.strictSame(
      rows.map(([id]) => id),
      alices.map(({ id }) => id),
    );
    const name = head.indexOf('filename');
    t.strictSame(
      rows.slice(0, NAMES.length).map((row) => row[name]),
      ['plain.txt', "'=1+1", "'+A1", "'-2", "'@SUM(A1)", "'\tx", 'a,"b"\nc', "'＝1", "it's", ' led', 'تقرير', '😀'],
    );
    t.notOk(rows.flat().some((cell) => /^[=+\-@\t\r]/.test(cell)));
    t.strictSame(rows[4]?.slice(4, 8), ['422', '', '', 'Scan incomplete: a limit, "quoted"']);
  });

  t.test('it is filtered as the list is', async (t) => {
    const day = (daysAgo: number): string => new Date(NOW - daysAgo * DAY_MS).toISOString().slice(0, 10);
    for (const query of [
      'infected=true',
      'status=422',
      'outcome=noVerdict',
      'q=plain',
      `startDate=${day(9)}&endDate=${day(3)}&status=200`,
      'q=none',
    ]) {
      const [, ...rows] = parseCsv((await (await get(`/stats/export?${query}`)).text()).slice(1));
      const listed: { totalElements: number } = JSON.parse(await (await get(`/stats?${query}&size=1`)).text());
      t.equal(rows.length, listed.totalElements, query);
    }
    t.equal((await get('/stats/export?page=0')).status, 400, 'pages are not its');
    t.equal((await get('/stats/export?startDate=2026-02-02&endDate=2026-02-01')).status, 400);
    const [, ...rows] = parseCsv(await (await get('/stats/export', BOB)).text());
    t.equal(rows.length, 3);
  });

  t.test('an account has two at a time, and more when they have ended', async (t) => {
    const first = await Promise.all([get('/stats/export'), get('/stats/export')]);
    // They are all in buffers by now or not; what counts is that the places come back.
    await Promise.all(first.map((answer) => answer.text()));
    t.equal((await get('/stats/export')).status, 200);
    t.strictSame(surprises, []);
  });
});
