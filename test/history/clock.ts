// A process with a time zone of its own: stores rows at the edges of days, months and clock changes, and prints what the routes say.
import { Failure } from '../../src/errors.js';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { openPostgres, type PostgresTarget } from '../../src/store/postgres.js';
import { rowAt, serveHistory } from '../fixtures/history.js';

const [, , kind, place, userId] = process.argv;
if (place === undefined || userId === undefined) throw new Error('Which database, whose rows?');
const target: PostgresTarget = kind === 'url' ? { kind, url: place } : { kind: 'embedded', socketDirectory: place };

/** Edges in UTC, and the hours that Berlin and New York lack or have twice in 2026. */
const instants = [
  '2025-11-30T23:59:59.999Z',
  '2025-12-01T00:00:00.000Z',
  '2025-12-31T23:59:59.999Z',
  '2026-01-01T00:00:00.000Z',
  '2026-02-28T23:59:59.999Z',
  '2026-03-08T06:59:59.999Z',
  '2026-03-08T07:00:00.000Z',
  '2026-03-29T00:59:59.999Z',
  '2026-03-29T01:30:00.000Z',
  '2026-10-25T00:30:00.000Z',
  '2026-10-25T01:30:00.000Z',
  '2026-10-31T23:59:59.999Z',
  '2026-11-01T00:00:00.000Z',
  '2026-11-01T05:30:00.000Z',
  '2026-11-01T06:30:00.000Z',
  '2026-11-20T18:15:00.000Z',
  '2026-11-20T23:59:59.999Z',
  '2026-11-21T00:00:00.000Z',
  '2026-11-21T23:59:59.999Z',
];

const undo: (() => unknown)[] = [];
const { sql, close } = await openPostgres(target);
const rows = instants.map((instant, index) =>
  rowAt(Date.parse(instant), { userId, filename: instant, ...(index % 3 === 0 ? { virusName: 'Eicar' } : {}) }),
);
await createRowStore(sql)(rows);
const get = await serveHistory({ teardown: (act) => undo.push(act) }, sql, () =>
  Date.parse('2026-11-21T23:59:59.999Z'),
);
const ask = async (path: string): Promise<unknown> => {
  const { status, body } = await get(path, userId);
  if (status !== 200) throw new Failure('internal', path);
  return body;
};
const pages = [
  await ask('?sort=creationDate,asc&size=200'),
  await ask('?startDate=2026-10-25&endDate=2026-11-01&sort=filename'),
  await ask('?startDate=2026-11-20&endDate=2026-11-20'),
];
const shown = pages.map((page) =>
  Object(page).content.map((row: Record<string, unknown>) => [row['filename'], row['creationDate'], row['lastUpdate']]),
);
const donuts = [
  await ask('/donuts'),
  await ask('/donuts?startDate=2026-11-21'),
  await ask('/donuts?startDate=2026-03-29&endDate=2026-03-29'),
  await ask('/donuts?startDate=2025-01-01'),
];
process.stdout.write(`${JSON.stringify({ shown, donuts, monthly: await ask('/monthly') })}\n`);
for (const act of undo) await act();
await close();
