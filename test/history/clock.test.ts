// Days, months and times are UTC wherever the server stands and whatever the database's time zone is, on both stores.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { v7 as uuidv7 } from 'uuid';
import { outcomeDays } from '../../src/history/outcomes.js';
import { onEachStore, open } from '../fixtures/stores.js';

const run = promisify(execFile);
const script = fileURLToPath(new URL('clock.js', import.meta.url));

onEachStore(async (t, store) => {
  const target = await store.target(t);
  const { sql } = await open(t, target);
  const place = target.kind === 'url' ? target.url : target.socketDirectory;

  async function seenIn(timeZone: string): Promise<Record<string, unknown>> {
    const { stdout } = await run(process.execPath, [script, target.kind, place, uuidv7()], {
      env: { PATH: process.env['PATH'], TZ: timeZone },
    });
    return Object(JSON.parse(stdout));
  }

  t.test('in every time zone the same rows have the same times, days and months', async (t) => {
    const utc = await seenIn('UTC');
    for (const zone of ['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'Pacific/Kiritimati']) {
      t.strictSame(await seenIn(zone), utc, zone);
    }
    t.match(utc, {
      donuts: [
        { infected: 4, clean: 6 },
        { infected: 1, clean: 1 },
        { infected: 0, clean: 2 },
        { infected: 7, clean: 12 },
      ],
    });
    const { monthly, shown } = Object(utc);
    t.strictSame(
      monthly.map(({ month, infected, clean }: Record<string, number>) => [month, Number(infected) + Number(clean)]),
      [
        ['2025-12', 2],
        ['2026-01', 1],
        ['2026-02', 1],
        ['2026-03', 4],
        ['2026-04', 0],
        ['2026-05', 0],
        ['2026-06', 0],
        ['2026-07', 0],
        ['2026-08', 0],
        ['2026-09', 0],
        ['2026-10', 3],
        ['2026-11', 7],
      ],
    );
    for (const [filename, creationDate] of shown.flat()) t.equal(creationDate, filename.slice(0, 19));
    t.strictSame(
      shown.map((page: unknown[]) => page.length),
      [19, 6, 2],
    );
  });

  t.test('a database whose own time zone is another one changes nothing', async (t) => {
    const utc = await seenIn('UTC');
    await sql`
      DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kathmandu''', current_database());
      END $$`;
    t.strictSame(await seenIn('Europe/Berlin'), utc);
  });

  t.test('nor does one whose clocks are set ahead at midnight, so that a day begins at one', async (t) => {
    await sql`
      DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET timezone = ''America/Santiago''', current_database());
      END $$`;
    const { sql: later } = await open(t, target);
    const days = await outcomeDays(later, null, Date.parse('2026-09-20T12:00:00Z'));
    t.equal(days.length, 30);
    t.match(days.at(-1), { day: '2026-09-20' });
  });
});
