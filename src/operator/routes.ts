// Everything under /web/admin: asked for by operators alone. Who is one is read with the session of each request.
import { z } from 'zod';
import { Failure } from '../errors.js';
import { NotedScans, notedScans, OutcomeDays, outcomeDays } from '../history/outcomes.js';
import { Digest } from '../history/scan-row.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply, noContent, readQuery } from '../http/json.js';
import { csvAnswer, jsonAnswer, pathParameter, queryParameters } from '../http/openapi.js';
import { csvPieces, csvReply } from '../http/wire.js';
import type { Queries } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-text.js';
import { actorOf, createAccountRoutes, type OperatorParts, type OperatorRoute } from './account-routes.js';
import { type AuditRow, listAudit, record } from './changes.js';
import { HealthView, UpdateView } from './health.js';

/** The one place where a route becomes an operator's: none is served without this check, which comes before the body is read. */
export function createOperatorRoutes(parts: OperatorParts): CallerRoute[] {
  const routes = [
    ...createAccountRoutes(parts),
    ...createObservingRoutes(parts),
    ...createActingRoutes(parts),
    ...createAuditRoutes(parts),
  ];
  return routes.map((route) => ({
    ...route,
    operation: {
      ...route.operation,
      tag: 'admin',
      errors: [...(route.operation.errors ?? []), 'operatorsOnly', 'twoFactorNeeded'],
    },
    handle(caller, exchange, parameters, begun) {
      if (caller.role !== 'operator') throw new Failure('operatorsOnly');
      if (parts.needsTwoFactor && !caller.twoFactor) throw new Failure('twoFactorNeeded');
      return route.handle(caller, exchange, parameters, begun);
    },
  }));
}

function createObservingRoutes({ sqlOf, now, update, health }: OperatorParts): OperatorRoute[] {
  return [
    {
      name: 'GET /web/admin/health',
      operation: {
        summary: 'The engine, the threads, memory, stores and the journal, as the process that answers has them now',
        responses: { 200: jsonAnswer('As it is now.', HealthView) },
      },
      handle: async () => jsonReply(200, { ...(await health()), update: update.view() }),
    },
    {
      name: 'GET /web/admin/activity',
      operation: {
        summary:
          'What scans of all nodes have come to in 30 days; errors by reason, refusals and the slowest ones of the last days',
        responses: { 200: jsonAnswer('As it is now.', ActivityView) },
      },
      async handle({ userId }) {
        const sql = sqlOf(userId);
        const days = await outcomeDays(sql, null, now());
        const refusals = await quotaRefusals(sql, now());
        const view: z.infer<typeof ActivityView> = { ...(await notedScans(sql, now())), days, refusals };
        return jsonReply(200, view);
      },
    },
  ];
}

function createActingRoutes(parts: OperatorParts): OperatorRoute[] {
  const { sqlOf, update, allow } = parts;
  return [
    {
      name: 'POST /web/admin/signatures/update',
      operation: {
        summary: 'Fetches newer signatures, tries them and puts them in place',
        description:
          'As `sluice signatures update` does; what it says is in `update` of /web/admin/health. One at a time, others are a 409.',
        responses: { 202: jsonAnswer('It has begun.', UpdateView) },
        errors: ['conflict'],
      },
      async handle({ userId }, exchange) {
        const actor = await actorOf(parts, userId, exchange);
        if (!update.start()) throw new Failure('conflict', 'An update is running already');
        await record(sqlOf(userId), actor, { action: 'signatures.update', target: null });
        return jsonReply(202, update.view());
      },
    },
    {
      name: 'DELETE /web/admin/refused/{sha256}',
      operation: {
        summary: 'Has a content scanned again that is refused since it crashed the engine twice',
        description: 'On the machine that answers, by all of its processes. Two more crashes, and it is refused again.',
        parameters: [pathParameter('sha256', Digest.describe('Of the content.'))],
        responses: { 204: { description: 'It is scanned again.' } },
        errors: ['notFound'],
      },
      async handle({ userId }, exchange, { sha256 }) {
        const actor = await actorOf(parts, userId, exchange);
        const known = Digest.safeParse(sha256);
        if (!known.success || !allow(known.data)) throw new Failure('notFound', 'the content');
        await record(sqlOf(userId), actor, { action: 'content.allow', target: null, detail: { sha256: known.data } });
        return noContent;
      },
    },
  ];
}

const AuditView = z
  .object({
    lines: z.array(
      z.object({
        id: z.string(),
        at: WireTime,
        actor: z.string(),
        address: z.string().nullable(),
        action: z.string(),
        targetId: z.uuid().nullable(),
        target: z.string().nullable(),
        detail: z.record(z.string(), z.unknown()),
      }),
    ),
    next: z.string().nullable().describe('`before` of the next page; null: there is none'),
  })
  .meta({ id: 'AuditPage' });

const PAGE_LINES = 50;
/** Lines that are read, and kept in memory, at a time. */
const EXPORT_LINES = 1_000;
const account = z.uuid('must be the id of an account').optional().describe('Only what was done to this account');
const AuditQuery = z.strictObject({
  before: z
    .string()
    .regex(/^\d{1,15}$/, 'must be the id of a line')
    .optional()
    .describe('Lines that are older than this one.'),
  account,
});
const ExportQuery = z.strictObject({ account });
const COLUMNS = ['id', 'at', 'actor', 'address', 'action', 'target', 'targetId', 'detail'];

function createAuditRoutes({ sqlOf }: OperatorParts): OperatorRoute[] {
  return [
    {
      name: 'GET /web/admin/audit',
      operation: {
        summary: 'The audit log: who did what to whom, the newest first',
        description: 'Lines are kept for a year, and nobody can change or remove them before.',
        parameters: queryParameters(AuditQuery),
        responses: { 200: jsonAnswer(`${PAGE_LINES} lines at most.`, AuditView) },
      },
      async handle({ userId }, exchange) {
        const { before = null, account: targetId = null } = readQuery(exchange, AuditQuery);
        const rows = await listAudit(sqlOf(userId), { before, targetId, rows: PAGE_LINES });
        const lines = rows.map((row) => ({ ...row, at: wireTime(row.at) }));
        const next = rows.length < PAGE_LINES ? null : (rows.at(-1)?.id ?? null);
        const view: z.infer<typeof AuditView> = { lines, next };
        return jsonReply(200, view);
      },
    },
    {
      name: 'GET /web/admin/audit/export',
      operation: {
        summary: 'The audit log as CSV',
        description: `All of it, the newest first, with the columns ${COLUMNS.join(', ')}. The answer has no length.`,
        parameters: queryParameters(ExportQuery),
        responses: { 200: csvAnswer('The lines.') },
      },
      async handle({ userId }, exchange) {
        const { account: targetId = null } = readQuery(exchange, ExportQuery);
        // Before the answer begins: what is wrong with the database is still an answer of its own.
        const page = (before: string | null) => listAudit(sqlOf(userId), { before, targetId, rows: EXPORT_LINES });
        const table = { columns: COLUMNS, cellsOf, pageRows: EXPORT_LINES, nextPage: page };
        return csvReply('sluice-audit.csv', csvPieces(await page(null), table));
      },
    },
  ];
}

function cellsOf({ id, at, actor, address, action, target, targetId, detail }: AuditRow) {
  const text = Object.keys(detail).length === 0 ? null : JSON.stringify(detail);
  return [id, `${wireTime(at)}Z`, actor, address, action, target, targetId, text];
}

const QuotaRefusals = z.array(z.object({ userId: z.uuid(), email: z.string(), refused: z.int() }));
type QuotaRefusals = z.infer<typeof QuotaRefusals>;

/** What scans of all nodes and accounts have come to lately: outcomes by day, errors by reason, refusals and the slowest scans. All of it is in the database. */
const ActivityView = NotedScans.extend({
  days: OutcomeDays.describe('Days of UTC'),
  refusals: QuotaRefusals.describe(
    'Scans of the last 24 hours that were refused since the quota was used up or too many of the account waited, which have no rows: the accounts with the most',
  ),
}).meta({ id: 'Activity' });

const REFUSED_ACCOUNTS = 20;
const HOUR_SECONDS = 3_600;
const DAY_HOURS = 24;

/** By account, of this hour and the 23 before it. */
async function quotaRefusals(sql: Queries, nowMs: number): Promise<QuotaRefusals> {
  const thisHour = Math.floor(nowMs / 1_000 / HOUR_SECONDS) * HOUR_SECONDS;
  return await sql<QuotaRefusals>`
    SELECT user_id AS "userId", email, sum(refused)::float8 AS refused
    FROM refused_hours JOIN users ON users.id = user_id
    WHERE window_start > ${thisHour - DAY_HOURS * HOUR_SECONDS}
    GROUP BY user_id, email ORDER BY sum(refused) DESC, user_id LIMIT ${REFUSED_ACCOUNTS}`;
}
