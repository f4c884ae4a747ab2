// GET /web/scans/stats and below, over HTTP on both stores: every sort, filter and page against a model, and nobody else's rows.
import fc from 'fast-check';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { type ScanRow, timeOfId } from '../../src/history/scan-row.js';
import { ALICE, type Answer, BOB, rowAt, serveHistory } from '../fixtures/history.js';
import { onEachStore, open } from '../fixtures/stores.js';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const DAY_MS = 86_400_000;

const VIRUSES = [null, null, null, 'Win.Test.A', 'Unix.Test.B', 'win.test.a'];
const NAMES = [
  ...['a.txt', 'A.txt', 'ab.txt', 'é.pdf', '%.zip', '_b', '\u{1f600}.exe', '', "o'hara.doc", 'b\\c'],
  ...['CAFÉ (1).txt', 'straße.doc', 'a.b*c[d]{2}', 'Ünder'],
];
const NOTICES = [[], ['encrypted'], [], ['encrypted', 'raw-content']];
const KEY = '0190c5f0-0000-7000-8000-00000000c0de';
const CAROL = '0190c5f0-0000-7000-8000-0000000ca401';

/** A few hundred rows of a year, many of them equal in what they are sorted by. */
function historyOf(userId: string, count: number): ScanRow[] {
  return Array.from({ length: count }, (_, index) => {
    const epochMs = NOW - Math.floor((index * 370 * DAY_MS) / count) - (index % 7) * 1000;
    const failed = index % 6 === 5;
    return rowAt(epochMs, {
      userId,
      filename: NAMES[(index * 7) % NAMES.length] ?? '',
      durationMs: (index * 13) % 5,
      virusName: failed ? null : (VIRUSES[index % VIRUSES.length] ?? null),
      status: failed ? ([400, 422, 499, 503][index % 4] ?? 400) : 200,
      error: failed ? 'Scan failed' : null,
      notices: failed ? [] : (NOTICES[index % NOTICES.length] ?? []),
      sha256: index % 4 === 0 ? 'cd'.repeat(32) : 'ab'.repeat(32),
      keyId: index % 9 === 0 ? KEY : null,
      lastUpdateMs: epochMs + ((index * 31) % 3) * 1000,
      protocol: (['http', 'clamd', 'http', 'icap', 'http'] as const)[index % 5] ?? 'http',
      env: 'STAGING',
    });
  });
}

function wire(row: ScanRow): Record<string, unknown> {
  const text = (ms: number): string => new Date(ms).toISOString().slice(0, 19);
  return {
    id: row.id,
    filename: row.filename,
    scanDurationMillis: row.durationMs,
    infected: row.virusName !== null,
    virusName: row.virusName,
    protocol: row.protocol,
    env: row.env,
    status: String(row.status),
    error: row.error,
    notices: row.notices,
    creationDate: text(timeOfId(row.id)),
    lastUpdate: text(row.lastUpdateMs),
    // Its key is of nobody's.
    key: null,
    url: row.url,
  };
}

type Key = (row: ScanRow) => string | number | null;
const keys: Record<string, Key> = {
  creationDate: ({ id }) => id,
  lastUpdate: ({ lastUpdateMs }) => lastUpdateMs,
  filename: ({ filename }) => Buffer.from(filename).toString('hex'),
  scanDurationMillis: ({ durationMs }) => durationMs,
  infected: ({ virusName }) => (virusName === null ? 0 : 1),
  virusName: ({ virusName }) => (virusName === null ? null : Buffer.from(virusName).toString('hex')),
  status: ({ status }) => status,
};

/** Null is behind everything, ties in the order of the ids. */
function compare(key: Key): (a: ScanRow, b: ScanRow) => number {
  return (a, b) => {
    const [left, right] = [key(a), key(b)];
    if (left !== right) return left === null ? 1 : right === null ? -1 : left < right ? -1 : 1;
    return a.id < b.id ? -1 : 1;
  };
}

interface Wish {
  readonly page?: number | undefined;
  readonly size?: number | undefined;
  readonly field: string;
  readonly direction?: string | undefined;
  readonly infected?: boolean | undefined;
  readonly verdict?: string | undefined;
  readonly outcome?: string | undefined;
  readonly status?: number | undefined;
  readonly q?: string | undefined;
  readonly sha256?: string | undefined;
  readonly virusName?: string | undefined;
  readonly key?: string | undefined;
  readonly protocol?: string | undefined;
  readonly startDate?: string | undefined;
  readonly endDate?: string | undefined;
}

function queryOf({ field, direction, ...rest }: Wish): string {
  const query = new URLSearchParams({ sort: direction === undefined ? field : `${field},${direction}` });
  for (const [name, value] of Object.entries(rest)) if (value !== undefined) query.set(name, String(value));
  return `?${query}`;
}

function verdictOf({ status, virusName }: ScanRow): 'none' | 'clean' | 'infected' {
  if (status !== 200) return 'none';
  return virusName === null ? 'clean' : 'infected';
}

function outcomeOf(row: ScanRow) {
  const verdict = verdictOf(row);
  if (verdict !== 'none') return verdict;
  if (row.status === 422) return 'noVerdict';
  if (row.status === 499) return 'left';
  return row.status < 500 ? 'refused' : 'failed';
}

function expected(rows: readonly ScanRow[], request: Wish): unknown {
  const day = (row: ScanRow): string => new Date(timeOfId(row.id)).toISOString().slice(0, 10);
  const matching = rows
    .filter(
      (row) =>
        (request.infected === undefined || (row.status === 200 && (row.virusName !== null) === request.infected)) &&
        (request.verdict === undefined || verdictOf(row) === request.verdict) &&
        (request.outcome === undefined || outcomeOf(row) === request.outcome) &&
        (request.status === undefined || row.status === request.status) &&
        (request.q === undefined || row.filename.toLowerCase().includes(request.q.toLowerCase())) &&
        (request.sha256 === undefined || row.sha256 === request.sha256.toLowerCase()) &&
        (request.virusName === undefined || row.virusName === request.virusName) &&
        (request.key === undefined || row.keyId === request.key) &&
        (request.protocol === undefined || row.protocol === request.protocol) &&
        (request.startDate === undefined || day(row) >= request.startDate) &&
        (request.endDate === undefined || day(row) <= request.endDate),
    )
    .sort(compare(keys[request.field] ?? (() => 0)));
  if (request.direction === 'desc') matching.reverse();
  const { page = 0, size = 20 } = request;
  const totalPages = Math.ceil(matching.length / size);
  return {
    content: matching.slice(page * size, (page + 1) * size).map(wire),
    page,
    size,
    totalElements: matching.length,
    totalPages,
    first: page === 0,
    last: page >= totalPages - 1,
  };
}

const dayText = fc
  .integer({ min: -3, max: 375 })
  .map((days) => new Date(NOW - days * DAY_MS).toISOString().slice(0, 10));
const sometimes = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const wishes = fc
  .record({
    field: fc.constantFrom(...Object.keys(keys)),
    direction: sometimes(fc.constantFrom('asc', 'desc')),
    page: sometimes(fc.integer({ min: 0, max: 30 })),
    size: sometimes(fc.integer({ min: 1, max: 60 })),
    infected: sometimes(fc.boolean()),
    verdict: sometimes(fc.constantFrom('clean', 'infected', 'none')),
    outcome: sometimes(fc.constantFrom('clean', 'infected', 'noVerdict', 'refused', 'left', 'failed')),
    status: sometimes(fc.constantFrom(200, 400, 422, 499, 503, 500)),
    q: sometimes(
      fc.constantFrom(
        ...['a', 'A', 'ab', '%', '_', 'é', 'É', '\u{1f600}', "O'H", 'b\\', 'nothing', '.TXT'],
        ...['.', '(1)', 'STRASSE', 'ß', 'b*C[D]{2}', '|', '^', 'ü', '\\'],
      ),
    ),
    sha256: sometimes(fc.constantFrom('ab'.repeat(32), 'CD'.repeat(32), 'ef'.repeat(32))),
    virusName: sometimes(fc.constantFrom('Win.Test.A', 'win.test.a', 'Win')),
    key: sometimes(fc.constantFrom(KEY, BOB)),
    protocol: sometimes(fc.constantFrom('http', 'clamd', 'icap')),
    startDate: sometimes(dayText),
    endDate: sometimes(dayText),
  })
  .filter(({ startDate, endDate }) => startDate === undefined || endDate === undefined || startDate <= endDate);

/** Each is wrong, and the answer names the parameter. */
const wrongQueries: [string, string, string][] = [
  ['page', 'page=-1', ''],
  ['page', 'page=1.5', ''],
  ['page', 'page=x', ''],
  ['page', 'page=', ''],
  ['page', 'page=1e3', ''],
  ['page', 'page=9999999999', ''],
  ['page', 'page=0x10', ''],
  ['page', 'page=0&page=1', ''],
  ['size', 'size=0', ''],
  ['size', 'size=201', ''],
  ['size', 'size=-20', ''],
  ['size', 'size=20%00', ''],
  ['sort', 'sort=', ''],
  ['sort', 'sort=id', ''],
  ['sort', 'sort=user_id', ''],
  ['sort', 'sort=creationDate,up', ''],
  ['sort', 'sort=creationDate,asc,id', ''],
  ['sort', 'sort=creationDate;DROP TABLE scans', ''],
  ['sort', 'sort=constructor', ''],
  ['sort', 'sort=__proto__', ''],
  ['sort', 'sort=filename&sort=status', ''],
  ['sort', 'sort=(SELECT 1)', ''],
  ['infected', 'infected=1', ''],
  ['infected', 'infected=TRUE', ''],
  ['infected', 'infected=', ''],
  ['infected', "infected=true' OR '1'='1", ''],
  ['verdict', 'verdict=', ''],
  ['verdict', 'verdict=Clean', ''],
  ['verdict', 'verdict=clean&verdict=none', ''],
  ['sha256', 'sha256=ab', ''],
  ['sha256', `sha256=${'g'.repeat(64)}`, ''],
  ['virusName', 'virusName=', ''],
  ['virusName', 'virusName=%00', ''],
  ['key', 'key=me', ''],
  ['key', `key=${KEY}'`, ''],
  ['protocol', 'protocol=HTTP', ''],
  ['outcome', 'outcome=none', ''],
  ['status', 'status=20', ''],
  ['status', 'status=2000', ''],
  ['status', 'status=ok', ''],
  ['status', 'status=200 OR 1=1', ''],
  ['q', 'q=', ''],
  ['q', `q=${'x'.repeat(256)}`, ''],
  ['q', 'q=%00', ''],
  ['q', 'q=a%0Ab', ''],
  ['startDate', 'startDate=2026-02-30', ''],
  ['startDate', 'startDate=2026-1-1', ''],
  ['startDate', 'startDate=0000-01-01', ''],
  ['startDate', 'startDate=2026-01-01T00:00:00', ''],
  ['startDate', 'startDate=', ''],
  ['endDate', 'endDate=yesterday', ''],
  ['endDate', 'endDate=99999-01-01', ''],
  ['startDate', 'startDate=2026-01-02&endDate=2026-01-01', ''],
  ['userId', `userId=${BOB}`, ''],
  ['user_id', `user_id=${BOB}`, ''],
  ['Page', 'Page=1', ''],
  ['startDate', 'startDate=2026-02-30', '/donuts'],
  ['startDate', 'startDate=2026-11-22', '/donuts'],
  ['startDate', 'startDate=2026-01-02&endDate=2026-01-01', '/donuts'],
  ['endDate', 'endDate=', '/donuts'],
  ['endDate', 'endDate=2026-01-01&endDate=2026-01-01', '/donuts'],
  ['page', 'page=0', '/donuts'],
  ['userId', `userId=${BOB}`, '/donuts'],
  ['startDate', 'startDate=2026-01-01', '/monthly'],
  ['userId', `userId=${BOB}`, '/monthly'],
];

onEachStore(async (t, store) => {
  const target = await store.target(t);
  const { sql } = await open(t, target);
  const alices = historyOf(ALICE, 400);
  const bobs = historyOf(BOB, 60);
  const save = createRowStore(sql);
  await save(alices);
  await save(bobs);
  const get = await serveHistory(t, sql, () => NOW);

  t.test('every sort, filter and page is what the model says', async (t) => {
    await fc.assert(
      fc.asyncProperty(wishes, async (request) => {
        const answer = await get(queryOf(request));
        t.strictSame(answer, { status: 200, body: expected(alices, request) }, queryOf(request));
      }),
      { numRuns: 400 },
    );
  });

  t.test('without parameters the newest twenty come first', async (t) => {
    const request = { field: 'creationDate', direction: 'desc' };
    t.strictSame(await get(''), { status: 200, body: expected(alices, request) });
    t.strictSame(await get('?'), { status: 200, body: expected(alices, request) });
  });

  t.test('each sort pages through all rows once, both ways', async (t) => {
    for (const field of Object.keys(keys)) {
      for (const direction of ['asc', 'desc']) {
        const seen: unknown[] = [];
        for (let page = 0; page < 4; page += 1) {
          const { body } = await get(queryOf({ field, direction, page, size: 123 }));
          seen.push(...contentOf(body).map(({ id }) => id));
        }
        t.equal(seen.length, alices.length);
        t.strictSame(new Set(seen), new Set(alices.map(({ id }) => id)), `${field},${direction}`);
      }
    }
  });

  t.test('of very many rows an order of few values has each in its place, whatever is filtered', async (t) => {
    const rows = Array.from({ length: 20_500 }, (_, index) => {
      const rare = index % 700 === 3 ? { virusName: VIRUSES[3 + (index % 3)] ?? null } : {};
      const failed = index % 900 === 5 ? { status: [503, 400, 422][index % 3] ?? 422, error: 'Scan failed' } : {};
      return rowAt(NOW - index * 1000, { userId: CAROL, ...rare, ...failed });
    });
    for (let from = 0; from < rows.length; from += 500) await save(rows.slice(from, from + 500));
    const whole = { startDate: '2026-11-01', size: 30 };
    for (const field of ['infected', 'virusName', 'status']) {
      for (const direction of ['asc', 'desc']) {
        for (const page of [1, 682]) {
          const request = { ...whole, field, direction, page };
          t.strictSame((await get(queryOf(request), CAROL)).body, expected(rows, request), queryOf(request));
        }
        const searched = { protocol: 'http', field, direction, page: 0, size: 60 };
        const { body } = await get(queryOf(searched), CAROL);
        t.match(body, { content: contentOf(expected(rows, searched)) }, queryOf(searched));
      }
    }
    await sql`DELETE FROM scans WHERE user_id = ${CAROL}`;
  });

  t.test('a wrong or unknown parameter is a 400 that names it', async (t) => {
    for (const [name, query, path] of wrongQueries) {
      const { status, body } = await get(`${path}?${query.replaceAll(' ', '%20')}`);
      t.equal(status, 400, query);
      t.match(body, { error: 'Bad request', message: new RegExp(name) }, query);
    }
  });

  t.test('what looks like SQL finds files with such names, and none', async (t) => {
    const attempts = ["' OR '1'='1", '"; DROP TABLE scans; --', "') OR user_id IS NOT NULL --", '%', '$1', '\\', '{}'];
    for (const q of attempts) {
      const { status, body } = await get(`?q=${encodeURIComponent(q)}`);
      t.match(
        { status, ...Object(body) },
        { status: 200, totalElements: alices.filter(({ filename }) => filename.includes(q)).length },
        q,
      );
    }
    t.equal((await sql`SELECT FROM scans`).length, alices.length + bobs.length);
  });

  t.test('nobody sees rows or counts of somebody else', async (t) => {
    const bobIds = new Set(bobs.map(({ id }) => id));
    const all = await Promise.all(Object.keys(keys).map((field) => get(queryOf({ field, size: 200 }), BOB)));
    for (const { body } of all) t.strictSame(new Set(contentOf(body).map(({ id }) => id)), bobIds);
    const stranger = '0190c5f0-0000-7000-8000-0000000000ff';
    t.match(await get('', stranger), {
      body: { content: [], totalElements: 0, totalPages: 0, first: true, last: true },
    });
    t.strictSame((await get('/donuts?startDate=2000-01-01', stranger)).body, { infected: 0, clean: 0 });
    for (const path of ['', '/donuts', '/daily', '/monthly']) t.equal((await get(path, null)).status, 401, path);
  });

  t.test('donuts count completed scans over whole days, both ends included', async (t) => {
    const model = (from: string, to: string): Answer => {
      const completed = alices.filter(({ id, status }) => {
        const day = new Date(timeOfId(id)).toISOString().slice(0, 10);
        return status === 200 && day >= from && day <= to;
      });
      const infected = completed.filter(({ virusName }) => virusName !== null).length;
      return { status: 200, body: { infected, clean: completed.length - infected } };
    };
    t.strictSame(await get('/donuts'), model('2026-10-23', '2026-11-21'));
    t.strictSame(await get('/donuts?endDate=2026-03-31'), model('2026-03-02', '2026-03-31'));
    t.strictSame(await get('/donuts?endDate=0001-01-01'), model('0001-01-01', '0001-01-01'));
    t.strictSame(await get('/donuts?startDate=2026-11-21'), model('2026-11-21', '2026-11-21'));
    t.strictSame(await get('/donuts?startDate=2026-02-01&endDate=2026-02-28'), model('2026-02-01', '2026-02-28'));
    t.strictSame(await get('/donuts?startDate=0001-01-01&endDate=9999-12-31'), model('0001-01-01', '9999-12-31'));
  });

  t.test('thirty days end with today, and count every outcome', async (t) => {
    const { body } = await get('/daily');
    const days: { day: string }[] = Array.isArray(body) ? body : [];
    t.equal(days.length, 30);
    t.match(days, { 0: { day: '2026-10-23' }, 29: { day: '2026-11-21' } });
    for (const { day, ...counts } of days) {
      const found = { clean: 0, infected: 0, noVerdict: 0, refused: 0, left: 0, failed: 0 };
      for (const row of alices) {
        if (new Date(timeOfId(row.id)).toISOString().slice(0, 10) !== day) continue;
        found[outcomeOf(row)] += 1;
      }
      t.strictSame(counts, found, day);
    }
  });

  t.test('twelve months end with this one, and their sums are the rows', async (t) => {
    const { body } = await get('/monthly');
    const months = Array.isArray(body) ? body : [];
    t.strictSame(
      months.map(({ month }) => month),
      ['2025-12', ...Array.from({ length: 11 }, (_, index) => `2026-${String(index + 1).padStart(2, '0')}`)],
    );
    for (const { month, ...counts } of months) {
      const completed = alices.filter(
        ({ id, status }) => status === 200 && new Date(timeOfId(id)).toISOString().startsWith(month),
      );
      const infected = completed.filter(({ virusName }) => virusName !== null).length;
      t.strictSame(counts, { infected, clean: completed.length - infected }, month);
    }
  });

  t.test('a search that takes too long is ended with a 503 that says what helps', async (t) => {
    const tooSlow = {
      status: 503,
      body: { error: 'Service unavailable', message: 'This page takes too long to find: narrow it by dates' },
    };
    const other = await open(t, target);
    await other.sql`ALTER TABLE scans RENAME TO hidden_scans`;
    // As long as one wants, and it takes nothing of the processor.
    await other.sql`CREATE VIEW scans AS SELECT hidden_scans.* FROM hidden_scans, pg_sleep(600)`;
    t.match(await get('?q=nowhere'), tooSlow);
    await other.sql`DROP VIEW scans`;
    await other.sql`ALTER TABLE hidden_scans RENAME TO scans`;
    t.equal((await get('?q=a')).status, 200);
  });

  t.test('a table that somebody has locked is a database that does not answer', async (t) => {
    const isDown = { status: 503, body: { message: 'The account store is not reachable' } };
    const other = await open(t, target);
    await other.sql.transaction('readCommitted', async (tx) => {
      await tx`LOCK TABLE scans IN ACCESS EXCLUSIVE MODE`;
      t.match(await get('?q=a'), isDown);
    });
    t.equal((await get('?q=a')).status, 200);
  });

  t.test('old rows come once each while new ones are added, oldest first', async (t) => {
    const seen: unknown[] = [];
    for (let page = 0; page * 10 < alices.length; page += 1) {
      const [{ body }] = await Promise.all([
        get(queryOf({ field: 'creationDate', direction: 'asc', page, size: 10 })),
        save([rowAt(NOW + 1 + page, { filename: 'new' })]),
      ]);
      seen.push(
        ...contentOf(body)
          .filter(({ filename }) => filename !== 'new')
          .map(({ id }) => id),
      );
    }
    t.strictSame(seen, alices.map(({ id }) => id).sort());
  });

  t.test('newest first, rows that are added meanwhile make old ones come again, never leave one out', async (t) => {
    const old = (await sql<{ id: string }[]>`SELECT id FROM scans WHERE user_id = ${ALICE}`).map(({ id }) => id);
    const seen = new Set<unknown>();
    for (let page = 0, last = false; !last; page += 1) {
      const { body } = await get(queryOf({ field: 'creationDate', direction: 'desc', page, size: 50 }));
      await save([rowAt(NOW + 1000 + page), rowAt(NOW + 2000 + page)]);
      for (const { id } of contentOf(body)) seen.add(id);
      last = Object(body).last;
    }
    for (const id of old) if (!seen.has(id)) t.fail('left out', { id });
    t.ok(seen.size >= old.length);
  });
});

function contentOf(body: unknown): { id: string; filename: string }[] {
  return Object(body).content;
}
