// History and a clock that is wrong, over the wire: a start far in the future drops nothing, on both stores.
import t, { type Test } from 'tap';
import { createRowStore } from '../../src/history/rows-to-database.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { rowAt } from '../fixtures/history.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { ask, bearer, signIn } from '../fixtures/sign-in.js';
import { open } from '../fixtures/stores.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { wrongClock } from '../fixtures/wrong-clock-path.js';

const HOURS_OF_500_DAYS = 500 * 24;

async function survives(t: Test, env: Readonly<Record<string, string>>): Promise<void> {
  const directory = temporaryFolder(t);
  const clock = wrongClock(t);
  const ids: (string | null)[] = [];
  for (const hours of [0, HOURS_OF_500_DAYS, 0]) {
    clock.set(hours);
    const server = await startServer({ directory, env: { ...env, ...clock.env } });
    t.teardown(() => server.stop('SIGKILL'));
    for (let scan = 0; scan < 3; scan += 1) {
      const { status, headers } = await upload(server.url, `content ${scan}`);
      t.equal(status, 200);
      ids.push(headers.get('x-scan-id'));
    }
    if (ids.length === 9) {
      const { accessToken } = await signIn(server.url);
      const shown = await until(async () => {
        const { body } = await ask(`${server.url}/web/scans/stats?size=200`, { headers: bearer(accessToken) });
        const content: { id: string }[] = Object(body).content;
        return content.length >= ids.length && content.map(({ id }) => id);
      });
      t.same(new Set(shown), new Set(ids));
    }
    t.equal(await server.stop(), 0);
  }
}

t.test('a start with a clock 500 days ahead erases nothing, on the embedded store', (t) => survives(t, {}));

t.test('a start with a clock 500 days ahead erases nothing, on Postgres', async (t) => {
  const database = await startPostgres({ t });
  await survives(t, { DATABASE_URL: await database.database() });
});

t.test('a month beyond the retention is announced in the log a day before it is dropped', async (t) => {
  const database = await startPostgres({ t });
  const url = await database.database();
  const { sql } = await open(t, { kind: 'url', url });
  await createRowStore(sql)([rowAt(Date.now())]);
  await sql`SELECT make_scan_partition('2020-02-01')`;
  const months = async (): Promise<number> =>
    (await sql`SELECT FROM pg_class WHERE relname = 'scans_202002' AND relkind = 'r'`).length;
  const settings = { env: { DATABASE_URL: url, HISTORY_RETENTION_DAYS: '100' }, untilReady: false };
  const first = await startServer(settings);
  await first.printed(
    /"month":"2020-02",.*"msg":"(a month of the history is beyond the retention, and is dropped in a day)"/,
  );
  t.equal(await first.stop(), 0);
  t.equal(await months(), 1);
  await sql`UPDATE scan_retention SET announced_at = announced_at - interval '1 day'`;
  const second = await startServer(settings);
  await second.printed(/"month":"2020-02",.*"msg":"(a month beyond the retention was dropped from the history)"/);
  t.equal(await second.stop(), 0);
  t.equal(await months(), 0);
});
