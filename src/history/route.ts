// GET /web/scans/stats and below: the signed-in user's history and its statistics, never anybody else's.
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply, readQuery } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { guarded } from '../store/guard.js';
import type { Sql } from '../store/postgres.js';
import { createDetailRoute } from './detail-route.js';
import { createExportRoute, type ExportLog } from './export-route.js';
import { donutParameters, donutQuery, donutRange, noQuery, pageParameters, pageQuery } from './query.js';
import { countMonths, countVerdicts, findScans, SEARCH_ROWS, TooSlow } from './stats.js';
import { rowSchema, wireRow } from './wire-row.js';

export interface HistoryRouteParts {
  readonly sql: Sql;
  readonly now: () => number;
  /** Told of exports that broke off. */
  readonly log: ExportLog;
}

const MONTHS = 12;
const RETRY_SECONDS = 5;

export function createHistoryRoutes({ sql, now, log }: HistoryRouteParts): CallerRoute[] {
  return [
    createDetailRoute(sql),
    createExportRoute({ sql, log }),
    {
      method: 'GET',
      path: '/web/scans/stats',
      operation: pageOperation,
      async handle(caller, exchange) {
        const wish = readQuery(exchange, pageQuery);
        const { rows, total } = await findScans(sql, caller.userId, wish).catch(unavailableWhenSlow);
        const totalPages = Math.ceil(total / wish.size);
        return jsonReply(200, {
          content: rows.map(wireRow),
          page: wish.page,
          size: wish.size,
          totalElements: total,
          totalPages,
          first: wish.page === 0,
          last: wish.page >= totalPages - 1,
        });
      },
    },
    {
      method: 'GET',
      path: '/web/scans/stats/donuts',
      operation: donutOperation,
      async handle(caller, exchange) {
        const range = donutRange(readQuery(exchange, donutQuery), now());
        if (range === null) throw new Failure('badRequest', 'startDate: must not be after endDate');
        const { infected, clean } = await guarded(countVerdicts(sql, caller.userId, range.startMs, range.endMs));
        return jsonReply(200, { infected, clean });
      },
    },
    {
      method: 'GET',
      path: '/web/scans/stats/monthly',
      operation: monthlyOperation,
      async handle(caller, exchange) {
        readQuery(exchange, noQuery);
        const months = lastMonths(now());
        const [oldest = ''] = months;
        const counted = await guarded(countMonths(sql, caller.userId, Date.parse(`${oldest}-01T00:00:00Z`)));
        const byMonth = new Map(counted.map((one) => [one.month, one]));
        return jsonReply(
          200,
          months.map((month) => {
            const { infected, clean } = byMonth.get(month) ?? { infected: 0, clean: 0 };
            return { month, infected, clean };
          }),
        );
      },
    },
  ];
}

function unavailableWhenSlow(error: unknown): never {
  if (!(error instanceof TooSlow)) throw error;
  throw new Failure('unavailable', 'This page takes too long to find: narrow it by dates', RETRY_SECONDS);
}

/** Oldest first, this month last. */
function lastMonths(nowMs: number): string[] {
  const today = new Date(nowMs);
  return Array.from({ length: MONTHS }, (_, index) =>
    new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - (MONTHS - 1) + index, 1)).toISOString().slice(0, 7),
  );
}

const count = { type: 'integer', minimum: 0 };

const countsSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['infected', 'clean'],
  properties: { infected: count, clean: count },
};

function operation(
  summary: string,
  description: string,
  schema: object,
  parameters: Operation['parameters'],
): Operation {
  return {
    summary,
    description,
    tag: 'history',
    who: 'user',
    ...(parameters === undefined ? {} : { parameters }),
    responses: { 200: { description: 'As asked for.', content: { 'application/json': { schema } } } },
    errors: ['badRequest', 'tokenMissing', 'tokenInvalid', 'tokenExpired', 'internal', 'unavailable'],
  };
}

const pageOperation = operation(
  "A page of the caller's scans",
  `Failed scans are in it, with their status and error. totalElements is exact, except with q: then at most ${SEARCH_ROWS} rows are ` +
    'found. Rows that are added between two pages move older ones back, so that a row may come twice, but none is left out; ' +
    'with sort=creationDate,asc new ones come last. A null virusName is behind all names.',
  {
    type: 'object',
    additionalProperties: false,
    required: ['content', 'page', 'size', 'totalElements', 'totalPages', 'first', 'last'],
    properties: {
      content: { type: 'array', items: rowSchema },
      page: count,
      size: count,
      totalElements: count,
      totalPages: count,
      first: { type: 'boolean' },
      last: { type: 'boolean' },
    },
  },
  pageParameters,
);

const donutOperation = operation(
  'How many scans were infected and clean',
  'Completed scans only, over whole UTC days.',
  countsSchema,
  donutParameters,
);

const monthlyOperation = operation(
  'Infected and clean scans of the last twelve months',
  'Completed scans only; oldest first, the current UTC month last, empty months with zeros.',
  {
    type: 'array',
    minItems: MONTHS,
    maxItems: MONTHS,
    items: {
      ...countsSchema,
      required: ['month', 'infected', 'clean'],
      properties: { month: { type: 'string', pattern: '^\\d{4}-\\d\\d$' }, infected: count, clean: count },
    },
  },
  undefined,
);
