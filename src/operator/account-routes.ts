// The routes under /web/admin/accounts: accounts found by a part of their address or name, with what they may and what they use; changed, deleted; their keys and
// sessions ended.
import { z } from 'zod';
import { KeyView, listedView } from '../account/key-routes.js';
import { listKeys } from '../account/keys.js';
import { listSessions, SessionView } from '../account/sessions.js';
import { findUser, Role, type UserRow, UserView, userColumns, userView } from '../account/users.js';
import { type Plans, planNamed } from '../config/plans.js';
import { Failure } from '../errors.js';
import { OutcomeDays, outcomeDays } from '../history/outcomes.js';
import type { Caller, CallerRoute, GuardedOperation } from '../http/caller.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply, noContent, readJson, readQuery } from '../http/json.js';
import { jsonAnswer, jsonBody, pathParameter, queryInteger, queryParameters } from '../http/openapi.js';
import type { RouteName } from '../http/router.js';
import type { Queries, SqlOf } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-text.js';
import {
  type Actor,
  type ChangeParts,
  changeAccount,
  deleteAccount,
  endKeyOf,
  endSessionsOf,
  LIMIT_MAX,
  type Nodes,
} from './changes.js';
import type { ReadHealth, SignatureUpdate } from './health.js';

const AccountView = UserView.extend({
  ownLimit: z.int().nullable().describe("Scans per hour in place of the plan's"),
  suspendedAt: WireTime.nullable(),
  keys: z.int().describe('Live ones'),
  sessions: z.int(),
  scans: z.int().describe('Of the last 30 days'),
  lastUse: WireTime.nullable().describe('Of a session or a key'),
});
type AccountView = z.infer<typeof AccountView>;

const AccountsView = z
  .object({ accounts: z.array(AccountView), total: z.int(), plans: z.array(z.string()) })
  .meta({ id: 'AccountPage' });

const AccountDetail = AccountView.extend({
  days: OutcomeDays,
  keyList: z.array(KeyView),
  sessionList: z.array(SessionView.omit({ current: true })),
}).meta({ id: 'AccountDetail' });
type AccountDetail = z.infer<typeof AccountDetail>;

interface AccountRow extends UserRow {
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
async function findAccounts(
  sql: Queries,
  plans: Plans,
  { text, page, size }: Search,
): Promise<z.infer<typeof AccountsView>> {
  const rows = await sql<AccountRow[]>`
    SELECT u.*, facts.* FROM (
      SELECT ${userColumns(sql)}, count(*) OVER ()::int AS total FROM users
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
async function readAccount(sql: Queries, plans: Plans, userId: string, nowMs: number): Promise<AccountDetail | null> {
  const [row] = await sql<AccountRow[]>`
    SELECT u.*, facts.* FROM (
      SELECT ${userColumns(sql)}, 1 AS total FROM users WHERE id = ${userId}) u
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

function viewOf(row: AccountRow, plans: Plans): AccountView {
  const { own_limit: ownLimit, suspended_at: suspended, keys, sessions, scans, last_use: lastUse } = row;
  return {
    ...userView(row, plans),
    ownLimit,
    suspendedAt: suspended === null ? null : wireTime(suspended),
    ...{ keys, sessions, scans },
    lastUse: lastUse === null ? null : wireTime(lastUse),
  };
}

/** Without what all of them have. */
export interface OperatorRoute extends Omit<CallerRoute, 'operation'> {
  readonly operation: Omit<GuardedOperation, 'tag'>;
}

function operatorRoute(
  name: RouteName,
  operation: OperatorRoute['operation'],
  handle: OperatorRoute['handle'],
): OperatorRoute {
  return { name, operation, handle };
}

export interface OperatorParts {
  readonly sqlOf: SqlOf;
  readonly plans: Plans;
  readonly nodes: Nodes;
  readonly now: () => number;
  readonly addressOf: (exchange: Exchange) => string;
  /** An account is gone: its scans may be removed now. */
  readonly onDeleted: () => void;
  readonly update: SignatureUpdate;
  /** A content that was refused since it crashed the engine is scanned again on this machine. False: it isn't refused. */
  readonly allow: (sha256: string) => boolean;
  readonly health: ReadHealth;
  /** Operators without a second factor are refused. */
  readonly needsTwoFactor: boolean;
}

/** As the audit log names an operator. */
export async function actorOf(
  { sqlOf, addressOf }: Pick<OperatorParts, 'sqlOf' | 'addressOf'>,
  userId: string,
  exchange: Exchange,
): Promise<Actor> {
  const user = await findUser(sqlOf(userId), userId);
  if (user === null) throw new Failure('tokenInvalid');
  return { userId, name: user.email, address: addressOf(exchange) };
}

const Id = z.uuid();
const TEXT_CHARACTERS = 255;
const PAGE_MAX = 100_000;

const Query = z.strictObject({
  q: z
    .string()
    .max(TEXT_CHARACTERS, `must have at most ${TEXT_CHARACTERS} characters`)
    .regex(/^\P{Cc}*$/u, 'must not have control characters')
    .default('')
    .describe('A part of the address or the name, or the id'),
  page: queryInteger(0, PAGE_MAX, 0).describe('From 0.'),
});
const PAGE_ACCOUNTS = 50;

const Change = z
  .strictObject({
    plan: z.string().optional(),
    ownLimit: z.int().min(1).max(LIMIT_MAX).nullable().optional().describe("null: the plan's"),
    role: Role.optional(),
    suspended: z.boolean().optional(),
  })
  .refine((change) => Object.keys(change).length > 0, 'Send at least one of plan, ownLimit, role and suspended')
  .meta({ id: 'AccountChange' });

export function createAccountRoutes(parts: OperatorParts): OperatorRoute[] {
  const { sqlOf, plans, nodes, now, onDeleted } = parts;

  const partsOf = ({ userId }: Caller): ChangeParts => ({ sql: sqlOf(userId), nodes, plans });

  async function detail(caller: Caller, id: string) {
    const account = await readAccount(sqlOf(caller.userId), plans, id, now());
    if (account === null) throw unknownAccount();
    return jsonReply(200, account);
  }

  return [
    operatorRoute('GET /web/admin/accounts', findOperation, async (caller, exchange) => {
      const { q, page } = readQuery(exchange, Query);
      return jsonReply(
        200,
        await findAccounts(sqlOf(caller.userId), plans, { text: q.trim(), page, size: PAGE_ACCOUNTS }),
      );
    }),
    operatorRoute('GET /web/admin/accounts/{userId}', showOperation, (caller, _exchange, { userId }) =>
      detail(caller, idOf(userId)),
    ),
    operatorRoute('PUT /web/admin/accounts/{userId}', changeOperation, async (caller, exchange, parameters) => {
      const userId = idOf(parameters['userId']);
      const { suspended, ...change } = await readJson(exchange, Change);
      if (change.plan !== undefined && planNamed(plans, change.plan) === null) {
        throw new Failure('badRequest', `plan: must be one of ${plans.map(({ name }) => name).join(', ')}`);
      }
      if (userId === caller.userId && (suspended === true || change.role === 'user')) throw ownAccount();
      const actor = await actorOf(parts, caller.userId, exchange);
      const changed = await changeAccount(partsOf(caller), actor, userId, { ...change, isSuspended: suspended });
      if (changed === null) throw unknownAccount();
      return await detail(caller, userId);
    }),
    operatorRoute('DELETE /web/admin/accounts/{userId}', deleteOperation, async (caller, exchange, parameters) => {
      const userId = idOf(parameters['userId']);
      if (userId === caller.userId) throw ownAccount();
      if (!(await deleteAccount(partsOf(caller), await actorOf(parts, caller.userId, exchange), userId)))
        throw unknownAccount();
      onDeleted();
      return noContent;
    }),
    ...createEndRoutes(parts),
  ];
}

function createEndRoutes(parts: OperatorParts): OperatorRoute[] {
  const { sqlOf, nodes } = parts;
  return [
    {
      name: 'DELETE /web/admin/accounts/{userId}/sessions',
      operation: {
        summary: 'Ends all sessions of an account',
        parameters: [pathParameter('userId', Id.describe('Of the account.'))],
        responses: { 204: { description: 'Ended.' } },
        errors: ['notFound'],
      },
      async handle(caller, exchange, { userId }) {
        const actor = await actorOf(parts, caller.userId, exchange);
        if (!(await endSessionsOf(sqlOf(caller.userId), actor, idOf(userId)))) throw unknownAccount();
        return noContent;
      },
    },
    {
      name: 'DELETE /web/admin/accounts/{userId}/keys/{uuid}',
      operation: {
        summary: 'Ends a key of an account: it is refused on the next request on every node',
        parameters: [
          pathParameter('userId', Id.describe('Of the account.')),
          pathParameter('uuid', Id.describe('Of the key.')),
        ],
        responses: { 204: { description: 'Ended.' } },
        errors: ['notFound'],
      },
      async handle(caller, exchange, { userId, uuid }) {
        const actor = await actorOf(parts, caller.userId, exchange);
        const key = Id.safeParse(uuid);
        const account = { sql: sqlOf(caller.userId), nodes };
        if (!key.success || (await endKeyOf(account, actor, idOf(userId), key.data)) === null)
          throw new Failure('notFound', 'the key');
        return noContent;
      },
    },
  ];
}

const findOperation: OperatorRoute['operation'] = {
  summary: 'Accounts, by their address',
  description: `${PAGE_ACCOUNTS} on a page. Operators only.`,
  parameters: queryParameters(Query),
  responses: { 200: jsonAnswer('A page, and how many there are.', AccountsView) },
};

const showOperation: OperatorRoute['operation'] = {
  summary: 'An account with its keys, its sessions and its use',
  parameters: [pathParameter('userId', Id.describe('Of the account.'))],
  responses: { 200: jsonAnswer('The account.', AccountDetail) },
  errors: ['notFound'],
};

const changeOperation: OperatorRoute['operation'] = {
  summary: 'Changes the plan, the limit or the role of an account, suspends it or restores it',
  description:
    'What is left out stays. It holds on the next request on every node. A suspended account has no session, and its keys and its sign-in ' +
    'are a 403. Nobody suspends himself or takes the role from himself (409).',
  parameters: [pathParameter('userId', Id.describe('Of the account.'))],
  requestBody: jsonBody(Change),
  responses: { 200: jsonAnswer('The account as it is now.', AccountDetail) },
  errors: ['notFound', 'conflict'],
};

const deleteOperation: OperatorRoute['operation'] = {
  summary: 'Deletes an account with its keys, sessions and scans, for good',
  description:
    'Its scans are gone within minutes. An account with a subscription at Stripe is a 409, and so is your own.',
  parameters: [pathParameter('userId', Id.describe('Of the account.'))],
  responses: { 204: { description: 'Deleted.' } },
  errors: ['notFound', 'conflict'],
};

function idOf(text: string | undefined): string {
  const id = Id.safeParse(text);
  if (!id.success) throw unknownAccount();
  // As ours are spelled: what is refused for the own account is refused in any case.
  return id.data.toLowerCase();
}

const unknownAccount = (): Failure => new Failure('notFound', 'the account');

function ownAccount(): Failure {
  return new Failure('conflict', 'This is your own account: another operator or the command line can do that');
}
