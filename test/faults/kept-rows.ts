// What clients were answered, and what is kept of it: each answered scan has one row that says the same.
import { z } from 'zod';
import { startHistory } from '../../src/history/history.js';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { until } from '../fixtures/until.js';

/** What an answer said, and what a row says. */
export interface Told {
  readonly status: number;
  readonly filename: string;
  readonly infected: boolean;
  readonly virusName: string | null;
}

/** By scan id. */
export type Answers = Map<string, Told>;

const Result = z.object({
  filename: z.string(),
  infected: z.boolean(),
  virusName: z.string().nullable(),
});

/** A scan that failed has no result: only its name is known, to us, and that it is not infected. */
export function toldBy(status: number, body: unknown, filename: string): Told {
  if (status !== 200) return { status, filename, infected: false, virusName: null };
  const { infected, virusName, filename: told } = Result.parse(body);
  return { status, filename: told, infected, virusName };
}

/** Opens the store of a dead server as the next one would, replays its journal, and looks. */
export async function lookInto(dataDirectory: string, look: (sql: Sql) => Promise<void>): Promise<void> {
  const { socketDirectory, stop } = await startEmbedded({ dataDirectory });
  const store = await openPostgres({ kind: 'embedded', socketDirectory });
  await replayed(store.sql, dataDirectory);
  await look(store.sql);
  await store.close();
  await stop();
}

export async function replay(url: string, dataDirectory: string, look: (sql: Sql) => Promise<void>): Promise<void> {
  const store = await openPostgres({ kind: 'url', url });
  await replayed(store.sql, dataDirectory);
  await look(store.sql);
  await store.close();
}

/** As the next process with this data folder would. Returns how many rows waited in its journal. */
export async function replayed(sql: Sql, dataDirectory: string): Promise<number> {
  const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const options = { sql, dataDirectory, journalLimitBytes: 1e9, retentionDays: 400, log: silent };
  const history = await startHistory(options);
  const { rows } = history.state();
  await until(() => history.state().rows === 0);
  await history.stop();
  return rows;
}

/** Every answer has one row that says the same, and the counts are those of the rows. Returns how many rows there are. */
export async function verify(sql: Sql, answers: Answers, onProblem: (problem: string) => void): Promise<number> {
  const stored = new Map<string, Told>();
  const rows = await sql<(Told & { id: string })[]>`
    SELECT id, status, filename, infected, virus_name AS "virusName" FROM scans`;
  for (const { id, ...row } of rows) {
    if (stored.has(id)) onProblem(`${id} has two rows`);
    stored.set(id, row);
  }
  for (const [id, told] of answers) {
    const found = stored.get(id);
    if (found === undefined) onProblem(`${id} was answered ${told.status} and has no row`);
    else if (!isSame(told, found)) onProblem(`${id}: ${JSON.stringify(told)}, its row ${JSON.stringify(found)}`);
  }
  const [key] = await sql<{ isBehind: boolean }[]>`
    SELECT date_trunc('second', max(s.last_update)) IS DISTINCT FROM date_trunc('second', (SELECT max(last_use) FROM api_keys))
      AS "isBehind" FROM scans s WHERE status = 200 AND key_id IS NOT NULL`;
  if (key?.isBehind) onProblem('the key was used last when another scan than the last one was');
  const wrong = await sql`
    SELECT day FROM (
      SELECT user_id, (creation_date AT TIME ZONE 'UTC')::date AS day, status, infected, count(*) AS scans
      FROM scans GROUP BY 1, 2, 3, 4
    ) AS counted FULL JOIN scan_days USING (user_id, day, status, infected)
    WHERE counted.scans IS DISTINCT FROM scan_days.scans`;
  if (wrong.length > 0) onProblem(`${wrong.length} counts are not those of the rows`);
  return stored.size;
}

function isSame(told: Told, found: Told): boolean {
  const { status, filename, infected, virusName } = told;
  return (
    status === found.status &&
    infected === found.infected &&
    virusName === found.virusName &&
    (filename === found.filename || isUnnamed(found))
  );
}

/** A request that was refused before its form was read has no name in the history. */
function isUnnamed({ status, filename }: Told): boolean {
  return status !== 200 && filename === '';
}
