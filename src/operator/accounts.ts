// Accounts as an operator sees them: found by a part of their address or name, with what they may do and what they use.
import { z } from 'zod';
import { KeyView, listedView } from '../account/key-routes.js';
import { listKeys } from '../account/keys.js';
import { listSessions, SessionView } from '../account/sessions.js';
import { type UserRow, UserView, userView } from '../account/users.js';
import type { Plans } from '../config/plans.js';
import { OutcomeDays, outcomeDays } from '../history/outcomes.js';
import type { Queries } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-text.js';

const AccountView = UserView.extend({
  ownLimit: z.int().nullable().describe("Scans per hour in place of the plan's"),
  suspendedAt: WireTime.nullable(),
  keys: z.int().describe('Live ones'),
  sessions: z.int(),
  scans: z.int().describe('Of the last 30 days'),
  lastUse: WireTime.nullable().describe('Of a session or a key'),
});
type AccountView = z.infer<typeof AccountView>;

export const AccountsView = z
  .object({ accounts: z.array(AccountView), total: z.int(), plans: z.array(z.string()) })
  .meta({ id: 'AccountPage' });

export const AccountDetail = AccountView.extend({
  days: OutcomeDays,
  keyList: z.array(KeyView),
  sessionList: z.array(SessionView.omit({ current: true })),
}).meta({ id: 'AccountDetail' });
export type AccountDetail = z.infer<typeof AccountDetail>;

interface Row extends UserRow {
  readonly keys: number;
  readonly sessions: number;
  readonly scans: number;
  readonly last_use: Date | null;
  readonly total: number;
}

export interface Search {
  readonly text: string;
  readonly page: number;
  readonly size: number;
}

/** By address. What is counted is counted for the accounts of the page alone. */
export async function findAccounts(
  sql: Queries,
  plans: Plans,
  { text, page, size }: Search,
): Promise<z.infer<typeof AccountsView>> {
  const rows = await sql<Row[]>`
    SELECT u.*, facts.* FROM (
      SELECT id, email, name, plan, role, own_limit, suspended_at, creation_date, count(*) OVER ()::int AS total FROM users
      WHERE ${text} = '' OR strpos(lower(email), lower(${text})) > 0 OR strpos(lower(name), lower(${text})) > 0
        OR id::text = lower(${text})
      ORDER BY lower(email), id LIMIT ${size} OFFSET ${page * size}) u
    CROSS JOIN LATERAL (${factsOf(sql)}) facts ORDER BY lower(u.email), u.id`;
  // A page behind the last one has no row that says how many there are.
  if (rows.length === 0 && page > 0)
    return { ...(await findAccounts(sql, plans, { text, page: 0, size: 1 })), accounts: [] };
  const views = rows.map((row) => viewOf(row, plans));
  return { accounts: views, total: rows[0]?.total ?? 0, plans: plans.map(({ name }) => name) };
}

function factsOf(sql: Queries) {
  return sql`
    SELECT (SELECT count(*)::int FROM api_keys k WHERE k.user_id = u.id AND k.revoked_at IS NULL) AS keys,
      (SELECT count(*)::int FROM sessions s WHERE s.user_id = u.id AND s.expires_at > now()) AS sessions,
      (SELECT COALESCE(sum(d.scans), 0)::float8 FROM scan_days d
        WHERE d.user_id = u.id AND d.day > (now() AT TIME ZONE 'UTC')::date - 30) AS scans,
      GREATEST((SELECT max(k.last_use) FROM api_keys k WHERE k.user_id = u.id),
        (SELECT max(s.last_use) FROM sessions s WHERE s.user_id = u.id)) AS last_use`;
}

/** Null: there is none. */
export async function readAccount(
  sql: Queries,
  plans: Plans,
  userId: string,
  nowMs: number,
): Promise<AccountDetail | null> {
  const [row] = await sql<Row[]>`
    SELECT u.*, facts.* FROM (
      SELECT id, email, name, plan, role, own_limit, suspended_at, creation_date, 1 AS total FROM users WHERE id = ${userId}) u
    CROSS JOIN LATERAL (${factsOf(sql)}) facts`;
  if (row === undefined) return null;
  const keys = await listKeys(sql, userId);
  const sessions = await listSessions(sql, { userId, sessionId: null }, nowMs);
  return {
    ...viewOf(row, plans),
    days: await outcomeDays(sql, userId, nowMs),
    keyList: keys.map(listedView),
    sessionList: sessions.map(({ current: _, ...session }) => session),
  };
}

function viewOf(row: Row, plans: Plans): AccountView {
  const { own_limit: ownLimit, suspended_at: suspended, keys, sessions, scans, last_use: lastUse } = row;
  return {
    ...userView(row, plans),
    ownLimit,
    suspendedAt: suspended === null ? null : wireTime(suspended),
    ...{ keys, sessions, scans },
    lastUse: lastUse === null ? null : wireTime(lastUse),
  };
}
