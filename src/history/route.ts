// GET /web/scans/stats and below: the signed-in user's history and its statistics, never anybody else's.
import { z } from 'zod';
import { Failure } from '../errors.js';
import { type CallerRoute, callerRoute, type GuardedOperation } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, readQuery } from '../http/json.js';
import { jsonAnswer, pathParameter, queryParameters } from '../http/openapi.js';
import type { PathParameters, RouteName } from '../http/router.js';
import type { Queries } from '../store/postgres.js';
import { guarded } from '../store/store-error.js';
import { WireTime, wireTime } from '../wire-text.js';
import { countMonths, countVerdicts, OutcomeDays, outcomeDays } from './outcomes.js';
import { donutQuery, donutRange, keyUsageQuery, pageQuery, SEARCH_ROWS } from './query.js';
import { Detail, Row, wireDetail, wireRow } from './scan-view.js';
import {
  createExportRoute,
  createScanFinder,
  type ExportParts,
  type ScanFinderParts,
  ScanId,
  unavailableWhenSlow,
} from './scans-route.js';
import { findScans, namesOfKeys } from './stats.js';

type HistoryRouteParts = ScanFinderParts & ExportParts;

const MONTHS = 12;

export function createHistoryRoutes(parts: HistoryRouteParts): CallerRoute[] {
  const { sqlOf, onItsWay } = parts;
  const find = createScanFinder(parts);
  return [
    callerRoute('GET /web/scans/{id}', detailOperation, async ({ userId }, _exchange, { id }) => {
      const scan = await find(userId, id);
      if (scan === null) throw new Failure('notFound', 'the scan');
      return jsonReply(200, wireDetail(scan, await namesOfKeys(sqlOf(userId), userId, [scan])));
    }),
    createExportRoute(parts),
    keyUsageRoute(parts),
    ...statisticsRoutes(parts),
    callerRoute('GET /web/scans/stats', pageOperation, async (caller, exchange) => {
      const asked = readQuery(exchange, pageQuery);
      await onItsWay.settled(caller.userId);
      const { rows, total } = await findScans(sqlOf(caller.userId), caller.userId, asked).catch(unavailableWhenSlow);
      const names = await namesOfKeys(sqlOf(caller.userId), caller.userId, rows);
      const totalPages = Math.ceil(total / asked.size);
      const page: z.infer<typeof Page> = {
        content: rows.map((row) => wireRow(row, names)),
        page: asked.page,
        size: asked.size,
        totalElements: total,
        totalPages,
        first: asked.page === 0,
        last: asked.page >= totalPages - 1,
      };
      return jsonReply(200, page);
    }),
  ];
}

/** Reads what is asked for; what it returns asks the database, which has all rows of the user's by then. Null: there is none of that. */
type ReadQuestion = (
  userId: string,
  exchange: Exchange,
  parameters: PathParameters,
) => (sql: Queries) => Promise<object | null>;

function countsRoute(
  { sqlOf, onItsWay }: Pick<HistoryRouteParts, 'sqlOf' | 'onItsWay'>,
  name: RouteName,
  operation: GuardedOperation,
  read: ReadQuestion,
): CallerRoute {
  return callerRoute(name, operation, async ({ userId }, exchange, parameters) => {
    const ask = read(userId, exchange, parameters);
    await onItsWay.settled(userId);
    const counts = await guarded(ask(sqlOf(userId)));
    if (counts === null) throw new Failure('notFound', 'the key');
    return jsonReply(200, counts);
  });
}

function statisticsRoutes(parts: HistoryRouteParts): CallerRoute[] {
  const { now } = parts;
  return [
    countsRoute(parts, 'GET /web/scans/stats/donuts', donutOperation, (userId, exchange) => {
      const range = donutRange(readQuery(exchange, donutQuery), now());
      if (range === null) throw new Failure('badRequest', 'startDate: must not be after endDate');
      return (sql) => countVerdicts(sql, userId, range.startMs, range.endMs);
    }),
    countsRoute(
      parts,
      'GET /web/scans/stats/daily',
      dailyOperation,
      (userId) => (sql) => outcomeDays(sql, userId, now()),
    ),
    countsRoute(parts, 'GET /web/scans/stats/monthly', monthlyOperation, (userId) => {
      const months = lastMonths(now());
      return async (sql) => {
        const counted = await countMonths(sql, userId, Date.parse(`${months[0]}-01T00:00:00Z`));
        const byMonth = new Map(counted.map((one) => [one.month, one]));
        return months.map((month) => byMonth.get(month) ?? { month, infected: 0, clean: 0 });
      };
    }),
  ];
}

/** Oldest first, this month last. */
function lastMonths(nowMs: number): string[] {
  const today = new Date(nowMs);
  return Array.from({ length: MONTHS }, (_, index) =>
    new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - (MONTHS - 1) + index, 1)).toISOString().slice(0, 7),
  );
}

const count = z.int().min(0);
const Counts = z.object({ infected: count, clean: count }).meta({ id: 'VerdictCounts' });
const Months = z
  .array(
    z.object({
      month: z.string().regex(/^\d{4}-\d\d$/),
      infected: count,
      clean: count,
    }),
  )
  .length(MONTHS)
  .meta({ id: 'MonthlyCounts' });
const Page = z
  .object({
    content: z.array(Row),
    page: count,
    size: count,
    totalElements: count,
    totalPages: count,
    first: z.boolean(),
    last: z.boolean(),
  })
  .meta({ id: 'HistoryPage' });

function operation(summary: string, description: string, answer: z.ZodType, query?: z.ZodObject): GuardedOperation {
  return {
    summary,
    description,
    tag: 'history',
    parameters: query === undefined ? [] : queryParameters(query),
    responses: { 200: jsonAnswer('As asked for.', answer) },
  };
}

const pageOperation = operation(
  "A page of the caller's scans",
  `Failed scans are in it, with their status and error. totalElements is exact, except with q, sha256, virusName, key and protocol: then at most ${SEARCH_ROWS} rows are ` +
    'found. Rows that are added between two pages move older ones back, so that a row may come twice, but none is left out; ' +
    'with sort=creationDate,asc new ones come last. A null virusName is behind all names.',
  Page,
  pageQuery,
);

const donutOperation = operation(
  'How many scans were infected and clean',
  'Completed scans only, over whole UTC days.',
  Counts,
  donutQuery,
);

const dailyOperation = operation(
  'What came of the scans of the last 30 days',
  'By UTC day, the oldest first, today last, empty days with zeros. Failed scans are in it.',
  OutcomeDays,
);

const monthlyOperation = operation(
  'Infected and clean scans of the last twelve months',
  'Completed scans only; oldest first, the current UTC month last, empty months with zeros.',
  Months,
);

const detailOperation: GuardedOperation = {
  summary: 'One of your scans',
  description:
    "By its `X-Scan-Id`, from its answer on. Another process or node than the one that answered waits up to a second for a scan that it doesn't know yet. " +
    "Another account's scans are a 404.",
  tag: 'history',
  parameters: [pathParameter('id', ScanId)],
  responses: { 200: jsonAnswer('The scan.', Detail) },
  errors: ['notFound'],
};

const KeyUsage = z
  .object({
    lastUse: WireTime.nullable().describe('UTC, of the last scan that succeeded; null: none yet'),
    days: z
      .array(
        z.object({
          day: z.string().describe('UTC'),
          clean: count,
          infected: count,
          failed: count.describe('Without a verdict.'),
        }),
      )
      .describe('The oldest first, each day of the span once.'),
  })
  .meta({ id: 'KeyUsage' });
type KeyUsage = z.infer<typeof KeyUsage>;

/** GET /web/keys/{uuid}/usage: what came of the scans of one key of the signed-in user's, by day. */
function keyUsageRoute(parts: HistoryRouteParts): CallerRoute {
  return countsRoute(parts, 'GET /web/keys/{uuid}/usage', usageOperation, (userId, exchange, { uuid }) => {
    const { days } = readQuery(exchange, keyUsageQuery);
    const keyId = z.guid().safeParse(uuid);
    if (!keyId.success) throw new Failure('notFound', 'the key');
    return (sql) => usageOf(sql, userId, keyId.data, days);
  });
}

/** Null: the user has no such key, nor had one. */
async function usageOf(sql: Queries, userId: string, keyId: string, days: number): Promise<KeyUsage | null> {
  const [[key], counts] = await Promise.all([
    sql<{ last_use: Date | null }[]>`SELECT last_use FROM api_keys WHERE id = ${keyId} AND user_id = ${userId}`,
    sql<KeyUsage['days']>`
      SELECT to_char(d, 'YYYY-MM-DD') AS day, COALESCE(clean, 0) AS clean, COALESCE(infected, 0) AS infected,
        COALESCE(failed, 0) AS failed
      FROM generate_series((now() AT TIME ZONE 'UTC')::date - ${days - 1}::int, (now() AT TIME ZONE 'UTC')::date,
        interval '1 day') AS d
      LEFT JOIN key_days k ON k.day = d::date AND k.user_id = ${userId} AND k.key_id = ${keyId}
      ORDER BY d`,
  ]);
  if (key === undefined) return null;
  return { lastUse: key.last_use === null ? null : wireTime(key.last_use), days: [...counts] };
}

const usageOperation: GuardedOperation = {
  summary: 'The scans of one of your API keys, by day',
  description: 'Also of a key that has ended. Scans of before keys were counted by day are not in it.',
  tag: 'keys',
  parameters: [pathParameter('uuid', z.string().describe("The key's `uuid`.")), ...queryParameters(keyUsageQuery)],
  responses: { 200: jsonAnswer('The days, with today as the last one.', KeyUsage) },
  errors: ['notFound'],
};
