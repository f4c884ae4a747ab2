// GET /web/scans/stats/export: the signed-in user's scans as CSV (RFC 4180), filtered as the list is, sent as fast as the client takes them; no cell is a formula, whatever a file was called.
import { Unavailable } from '../errors.js';
import type { CallerRoute, GuardedOperation } from '../http/caller.js';
import { readQuery } from '../http/json.js';
import { queryParameters } from '../http/openapi.js';
import { csvHead, csvLine } from '../http/reply.js';
import type { SqlOf } from '../store/postgres.js';
import { Shares } from '../waiting/shares.js';
import { wireTime } from '../wire-text.js';
import { exportQuery } from './query.js';
import { type ScanRow, timeOfId } from './scan-row.js';
import { type OnItsWay, unavailableWhenSlow } from './scans-route.js';
import { type Filters, nextScans } from './stats.js';

export interface ExportLog {
  warn(fields: object, message: string): void;
}

interface ExportParts {
  readonly onItsWay: OnItsWay;
  readonly sqlOf: SqlOf;
  readonly log: ExportLog;
}

/** Rows that are read, and kept in memory, at a time: some 300 KB. */
const PAGE_ROWS = 1_000;
/** Of one user at a time: each is a long series of queries. */
const EXPORTS_PER_USER = 2;

export function createExportRoute({ sqlOf, log, onItsWay }: ExportParts): CallerRoute {
  const running = new Shares(EXPORTS_PER_USER);
  const rowsOf = (userId: string, filters: Filters, after: string | null): Promise<readonly ScanRow[]> =>
    nextScans(sqlOf(userId), userId, { ...filters, after, limit: PAGE_ROWS });

  async function* pieces(userId: string, filters: Filters, first: readonly ScanRow[]): AsyncGenerator<string> {
    const isCounted = running.take(userId);
    try {
      yield csvHead(csvColumns);
      for (let rows = first; rows.length > 0; ) {
        yield rows.map((row) => csvLine(columns.map(([, value]) => value(row)))).join('');
        const after = rows.length < PAGE_ROWS ? null : (rows.at(-1)?.id ?? null);
        rows = after === null ? [] : await rowsOf(userId, filters, after);
      }
    } catch (error) {
      log.warn({ userId, err: error }, 'an export of the history broke off');
      throw error;
    } finally {
      if (isCounted) running.giveBack(userId);
    }
  }

  return {
    method: 'GET',
    path: '/web/scans/stats/export',
    operation: exportOperation,
    async handle({ userId }, exchange) {
      const filters = readQuery(exchange, exportQuery);
      if (!running.take(userId)) throw new Unavailable('exportsBusy');
      // Before the answer begins: what is wrong with the query or the database is still an answer of its own.
      const first = await onItsWay
        .settled(userId)
        .then(() => rowsOf(userId, filters, null))
        .catch((error: unknown) => unavailableWhenSlow(error, 'exportSlow'))
        .finally(() => running.giveBack(userId));
      return {
        status: 200,
        headers: { 'Content-Disposition': 'attachment; filename="sluice-scans.csv"' },
        contentType: 'text/csv; charset=utf-8',
        body: pieces(userId, filters, first),
      };
    },
  };
}

const columns: readonly (readonly [string, (row: ScanRow) => string | number | null])[] = [
  ['id', ({ id }) => id],
  ['creationDate', ({ id }) => `${wireTime(new Date(timeOfId(id)))}Z`],
  ['lastUpdate', ({ lastUpdateMs }) => `${wireTime(new Date(lastUpdateMs))}Z`],
  ['filename', ({ filename }) => filename],
  ['status', ({ status }) => status],
  // Without a verdict it is neither.
  ['infected', ({ virusName, status }) => (status === 200 ? String(virusName !== null) : null)],
  ['virusName', ({ virusName }) => virusName],
  ['error', ({ error }) => error],
  ['sizeInBytes', ({ sizeBytes }) => sizeBytes],
  ['sha256', ({ sha256 }) => sha256],
  ['detectedType', ({ detectedType }) => detectedType],
  ['scanDurationMillis', ({ durationMs }) => durationMs],
  ['engine', ({ engine }) => engine],
  ['env', ({ env }) => env],
  ['notices', ({ notices }) => notices.join(' ')],
  ['protocol', ({ protocol }) => protocol],
  ['metadata', ({ metadata }) => metadata],
];

const csvColumns: readonly string[] = columns.map(([name]) => name);

const exportOperation: GuardedOperation = {
  summary: 'Your scans as CSV',
  description:
    `Filtered as the list is, the newest first, with the columns ${csvColumns.join(', ')}. UTF-8 with a byte order mark; times are UTC. ` +
    'A text that a spreadsheet would read as a formula has an apostrophe in front. The answer has no length: when the connection ends before ' +
    `the last chunk, rows are missing. There is no limit of rows. ${EXPORTS_PER_USER} exports of an account run at a time in each process, ` +
    'more are a 503 (exportsBusy). Filters whose rows take too long to find are a 503 (exportSlow): narrow them by dates. The connection of ' +
    'a client that takes nothing for ten seconds ends.',
  tag: 'history',
  parameters: queryParameters(exportQuery),
  responses: {
    200: {
      description: 'The rows.',
      headers: { 'Content-Disposition': { schema: { type: 'string' } } },
      content: { 'text/csv': { schema: { type: 'string' } } },
    },
  },
};
