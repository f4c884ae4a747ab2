// GET /api/v1/scans, /api/v1/scans/{id} and /api/v1/files/{sha256}: the scans of a key's account, all keys' and the dashboard's, the newest first;
// how one is found by its id, from its answer on, whichever process or node has answered it; and the user's scans as CSV (GET /web/scans/stats/export, RFC 4180).
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Engine } from '../engine/engine.js';
import { Failure, Unavailable } from '../errors.js';
import { type CallerRoute, callerRoute, type GuardedOperation, type KeyRoute, keyRoute } from '../http/caller.js';
import { jsonReply, readQuery } from '../http/json.js';
import { csvAnswer, jsonAnswer, pathParameter, queryParameters } from '../http/openapi.js';
import { csvPieces, csvReply } from '../http/wire.js';
import type { Log } from '../log.js';
import type { SqlOf } from '../store/postgres.js';
import { Shares } from '../waiting/turns.js';
import { wireTime } from '../wire-text.js';
import type { History } from './history.js';
import type { PendingScans, ScanWaits } from './pending-scans.js';
import { exportQuery, listQuery, Sha256, waitQuery } from './query.js';
import { type ScanRow, timeOfId } from './scan-row.js';
import { OK, pendingRow, ScanView, type ShownScan, scanView } from './scan-view.js';
import { type Filters, findScan, namesOfKeys, nextScans, TooSlow } from './stats.js';

export const ScanId = z.uuid({ version: 'v7' }).describe('Of the scan: its `X-Scan-Id`.');

/** A scan that was admitted so long ago, or by a clock that is ahead by so much, may have been answered just now by another node. */
const YOUNG_MS = 15 * 60_000;
/** It is in the database within two tenths of a second: after these pauses it is looked for again. */
const PAUSES_MS = [50, 100, 150, 300, 400];
/** Of one account at a time; those beyond get at once what the database has. */
const WAITS_PER_USER = 8;

export interface ScanFinderParts {
  readonly sqlOf: SqlOf;
  readonly now: () => number;
  readonly onItsWay: OnItsWay;
  readonly pending: Pick<PendingScans, 'find'>;
}

/** What this process knows of scans that the database doesn't have yet. */
export type OnItsWay = Pick<History, 'find' | 'settled'>;

/** Null: the user has no scan of that id, which may be any text. Throws Failure('unavailable'). */
type FindScan = (userId: string, id: string | undefined) => Promise<ShownScan | null>;

export function createScanFinder({ sqlOf, now, onItsWay, pending }: ScanFinderParts): FindScan {
  const waiting = new Shares(WAITS_PER_USER);

  /** What has ended in between the two questions is found by the next look. */
  async function look(userId: string, id: string): Promise<ShownScan | null> {
    const ended = await findScan(sqlOf(userId), userId, id);
    if (ended !== null) return ended;
    const accepted = await pending.find(userId, id);
    return accepted === null ? null : pendingRow(accepted);
  }

  /** Another process or node may have answered this very moment: its row is waited for, within bounds. */
  async function findSoon(userId: string, id: string): Promise<ShownScan | null> {
    const isYoung = Math.abs(now() - timeOfId(id)) < YOUNG_MS;
    let scan = await look(userId, id);
    if (scan !== null || !isYoung || !waiting.take(userId)) return scan;
    try {
      for (const pauseMs of PAUSES_MS) {
        await delay(pauseMs);
        scan = await look(userId, id);
        if (scan !== null) break;
      }
      return scan;
    } finally {
      waiting.giveBack(userId);
    }
  }

  return async (userId, id) => {
    const known = ScanId.safeParse(id);
    if (!known.success) return null;
    const scanId = known.data.toLowerCase();
    const row = onItsWay.find(userId, scanId);
    return row ?? (await findSoon(userId, scanId));
  };
}

const ScanPage = z
  .object({
    content: z.array(ScanView),
    next: z.string().nullable().describe('The `cursor` of the next page; null: there is none.'),
  })
  .meta({ id: 'ScanPage' });

const FileView = ScanView.extend({
  current: z.boolean().describe("Whether today's engine has looked, with the signatures that it has today."),
}).meta({ id: 'KnownFile' });

interface ScanViewParts extends Omit<ScanFinderParts, 'pending'> {
  readonly pending: Pick<PendingScans, 'find' | 'list'>;
  /** The one that serves; null: none does. */
  readonly serving: { readonly engine: Engine | null };
  readonly waits: Pick<ScanWaits, 'until'>;
}

export function createScanRoutes(parts: ScanViewParts): KeyRoute[] {
  const { sqlOf, onItsWay } = parts;
  const find = createScanFinder(parts);

  async function viewsOf(userId: string, scans: readonly ShownScan[]): Promise<ScanView[]> {
    const names = await namesOfKeys(sqlOf(userId), userId, scans);
    return scans.map((scan) => scanView(scan, names));
  }

  return [
    keyRoute('GET /api/v1/scans', listOperation, async ({ userId }, exchange) => {
      const { from: fromMs, to: beforeMs, limit, cursor = null, ...filters } = readQuery(exchange, listQuery);
      await onItsWay.settled(userId);
      // One more says whether there is a next page.
      const request = { ...filters, fromMs, beforeMs, after: cursor, limit: limit + 1 };
      // Those that have not ended go first: what ends between the two questions is in the history by the second one. They are HTTP's, and have no verdict.
      const mayBePending = filters.verdict === undefined && (filters.protocol ?? 'http') === 'http';
      const pending = mayBePending ? await parts.pending.list(userId, request) : [];
      const ended = await nextScans(sqlOf(userId), userId, request).catch(unavailableWhenSlow);
      const found = merged(ended, pending.map(pendingRow));
      const scans = found.slice(0, limit);
      const page: z.infer<typeof ScanPage> = {
        content: await viewsOf(userId, scans),
        next: found.length > limit ? (scans.at(-1)?.id ?? null) : null,
      };
      return jsonReply(200, page);
    }),
    keyRoute('GET /api/v1/scans/{id}', scanOperation, async ({ userId }, exchange, { id }) => {
      const { wait } = readQuery(exchange, waitQuery);
      const seen = await find(userId, id);
      if (seen?.pending !== undefined && wait > 0) {
        await parts.waits.until(userId, seen.id, wait * 1000, exchange.signal());
      }
      const scan = seen?.pending === undefined || wait === 0 ? seen : await find(userId, id);
      if (scan === null) throw new Failure('notFound', 'the scan');
      const [view] = await viewsOf(userId, [scan]);
      return jsonReply(200, view);
    }),
    keyRoute('GET /api/v1/files/{sha256}', fileOperation, async ({ userId }, _exchange, { sha256 }) => {
      const known = Sha256.safeParse(sha256);
      if (!known.success) throw new Failure('notFound', 'the file');
      await onItsWay.settled(userId);
      const request = { sha256: known.data, status: OK, after: null, limit: 1 };
      const [scan] = await nextScans(sqlOf(userId), userId, request).catch(unavailableWhenSlow);
      if (scan === undefined) throw new Failure('notFound', 'the file');
      const [view] = await viewsOf(userId, [scan]);
      const today = parts.serving.engine;
      const current = scan.engine === today?.label && scan.signatures === today?.signatureVersion;
      return jsonReply(200, { ...view, current });
    }),
  ];
}

const listOperation: GuardedOperation = {
  id: 'listScans',
  summary: "The account's scans, the newest first",
  description:
    'Those of all its keys and of the dashboard: failed ones too, and those that were accepted with 202 and have not ended, unless a verdict is asked for. Takes no unit.',
  tag: 'scans',
  parameters: queryParameters(listQuery),
  responses: { 200: jsonAnswer('A page of them.', ScanPage) },
};

const scanOperation: GuardedOperation = {
  id: 'getScan',
  summary: 'One scan of the account',
  description:
    'By its `X-Scan-Id`, from its answer on: also whether a scan is there whose answer never arrived, and what has become of one that was accepted with 202. Takes no unit.',
  tag: 'scans',
  parameters: [pathParameter('id', ScanId), ...queryParameters(waitQuery)],
  responses: { 200: jsonAnswer('The scan, whatever its state.', ScanView) },
  errors: ['notFound'],
};

const fileOperation: GuardedOperation = {
  id: 'getFile',
  summary: 'What is known of a content',
  description:
    "The account's newest scan of it that has a verdict, by any of its keys. Nothing is scanned, and it takes no unit.",
  tag: 'scans',
  parameters: [pathParameter('sha256', Sha256)],
  responses: { 200: jsonAnswer('The scan.', FileView) },
  errors: ['notFound'],
};

/** Each once, the newest first. */
function merged(ended: readonly ShownScan[], pending: readonly ShownScan[]): readonly ShownScan[] {
  if (pending.length === 0) return ended;
  const ids = new Set(ended.map(({ id }) => id));
  return [...ended, ...pending.filter(({ id }) => !ids.has(id))].sort((one, other) => (one.id < other.id ? 1 : -1));
}

/** Throws Failure `unavailable` for what took too long, otherwise the error. */
export function unavailableWhenSlow(error: unknown, reason: 'pageSlow' | 'exportSlow' = 'pageSlow'): never {
  if (!(error instanceof TooSlow)) throw error;
  throw new Unavailable(reason);
}

export interface ExportParts extends Pick<ScanFinderParts, 'sqlOf' | 'onItsWay'> {
  readonly log: Pick<Log, 'warn'>;
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
      yield* csvPieces(first, {
        columns: csvColumns,
        cellsOf: (row) => columns.map(([, value]) => value(row)),
        pageRows: PAGE_ROWS,
        nextPage: (after) => rowsOf(userId, filters, after),
      });
    } catch (error) {
      log.warn({ userId, err: error }, 'an export of the history broke off');
      throw error;
    } finally {
      if (isCounted) running.giveBack(userId);
    }
  }

  return callerRoute('GET /web/scans/stats/export', exportOperation, async ({ userId }, exchange) => {
    const filters = readQuery(exchange, exportQuery);
    if (!running.take(userId)) throw new Unavailable('exportsBusy');
    // Before the answer begins: what is wrong with the query or the database is still an answer of its own.
    const first = await onItsWay
      .settled(userId)
      .then(() => rowsOf(userId, filters, null))
      .catch((error: unknown) => unavailableWhenSlow(error, 'exportSlow'))
      .finally(() => running.giveBack(userId));
    return csvReply('sluice-scans.csv', pieces(userId, filters, first));
  });
}

const columns: readonly (readonly [string, (row: ScanRow) => string | number | null])[] = [
  ['id', ({ id }) => id],
  ['creationDate', ({ id }) => `${wireTime(timeOfId(id))}Z`],
  ['lastUpdate', ({ lastUpdateMs }) => `${wireTime(lastUpdateMs)}Z`],
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
  ['url', ({ url }) => url],
  ['keyUuid', ({ keyId }) => keyId],
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
  responses: { 200: csvAnswer('The rows.') },
};
