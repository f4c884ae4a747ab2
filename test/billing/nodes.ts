// A billing under test: one Postgres database, one local Stripe, and as many nodes (HTTP servers) on them as a test wants.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type Billing, createBilling } from '../../src/billing/billing.js';
import { createBillingRoutes, createWebhookRoute } from '../../src/billing/route.js';
import { plansOf } from '../../src/config/plans.js';
import { Failure } from '../../src/errors.js';
import { type Authenticate, behindSignIn } from '../../src/http/caller.js';
import { createRouter } from '../../src/http/router.js';
import { startServer } from '../../src/http/server.js';
import type { Log } from '../../src/log.js';
import { startEmbedded } from '../../src/store/embedded/embedded.js';
import { openPostgres, type PostgresTarget, type Sql } from '../../src/store/postgres.js';
import { seedMigrated } from '../fixtures/embedded-template.js';
import { newUser } from '../fixtures/new-user.js';
import { type PostgresServer, startPostgres } from '../fixtures/postgres.js';
import {
  type FakeStripe,
  type FakeStripeOptions,
  SECRET_KEY,
  startStripe,
  WEBHOOK_SECRET,
} from '../fixtures/stripe.js';
import { CARD_MARKER } from '../fixtures/stripe-account.js';

export const PLANS = new Map([
  ['FREE', 50],
  ['PRO', 1_000],
  ['BUSINESS', 10_000],
]);
export const PRICES = new Map([
  ['PRO', ['price_pro', 'price_pro_yearly']],
  ['BUSINESS', ['price_business']],
]);
const RETURN_BASE = 'https://sluice.example.org';

export interface WebAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

export interface Node {
  readonly url: string;
  readonly billing: Billing;
  /** Plans that were announced to the admission of this node, in order. */
  readonly told: [userId: string, plan: string][];
  ask(userId: string, method: string, path: string, body?: unknown): Promise<WebAnswer>;
}

export interface NodeOptions {
  readonly secretKey?: string | null;
  readonly stripeTimeoutMs?: number;
  /** Called before the announcement to the admission. */
  /** Default: the world's. */
  readonly sql?: Sql;
  readonly onPlanChanged?: (userId: string, plan: string) => Promise<void>;
}

export interface WorldOptions extends FakeStripeOptions {
  /** On the embedded store instead of a Postgres. */
  readonly embedded?: boolean;
}

export interface World {
  /** Null: the embedded store. */
  readonly databaseUrl: string | null;
  readonly sql: Sql;
  readonly stripe: FakeStripe;
  /** What the clock shows; tests set it forward. */
  readonly clock: { nowMs: number | null };
  readonly log: Log;
  readonly logLines: string[];
  node(options?: NodeOptions): Promise<Node>;
  user(plan?: string): Promise<string>;
  planOf(userId: string): Promise<string>;
}

let server: Promise<PostgresServer> | null = null;

/** One for the file. */
function sharedPostgres(): Promise<PostgresServer> {
  if (server === null) {
    server = startPostgres();
    t.teardown(async () => await (await sharedPostgres()).stop());
  }
  return server;
}

/** A test in a new world. At its end the local Stripe must have had nothing to complain about, and no secret may lie about. */
export function billingTest(
  name: string,
  body: (t: Test, world: World) => Promise<void>,
  options: WorldOptions = {},
): void {
  t.test(name, async (t) => {
    const { world, end } = await createWorld(options);
    try {
      await body(t, world);
    } finally {
      await end(t);
    }
  });
}

async function createWorld({
  embedded = false,
  ...options
}: WorldOptions): Promise<{ world: World; end: (t: Test) => Promise<void> }> {
  const clock: World['clock'] = { nowMs: null };
  const now = (): number => clock.nowMs ?? Date.now();
  const databaseUrl = embedded ? null : await (await sharedPostgres()).database();
  const store = databaseUrl === null ? await startStore() : null;
  const postgres = await openPostgres(store?.target ?? { kind: 'url', url: databaseUrl ?? '' });
  const { sql } = postgres;
  const stripe = await startStripe({ nowSeconds: () => Math.floor(now() / 1000), ...options });
  for (const [index, id] of [...PRICES.values()].flat().entries()) {
    stripe.account.prices.set(id, { amount: 1_900 + index, currency: 'eur', interval: 'month' });
  }
  const logLines: string[] = [];
  const log = pino({ level: 'trace', base: null }, { write: (line: string) => void logLines.push(line) });
  const stops: (() => Promise<void>)[] = [];
  let users = 0;

  async function end(t: Test): Promise<void> {
    for (const stop of stops) await stop();
    await stripe.stop();
    t.strictSame(stripe.violations, [], 'everything that Stripe was sent is as it wants it');
    const secrets = new RegExp([SECRET_KEY, WEBHOOK_SECRET, options.secretKey ?? SECRET_KEY, CARD_MARKER].join('|'));
    t.notMatch(logLines.join(''), secrets, 'no secret and no card in the log');
    t.notMatch(await dump(sql), secrets, 'nor in the tables');
    await postgres.close();
    await store?.stop();
  }

  const world: World = {
    databaseUrl,
    sql,
    stripe,
    clock,
    log,
    logLines,
    async node({ secretKey, stripeTimeoutMs, onPlanChanged, ...other } = {}) {
      const nodeSql = other.sql ?? sql;
      const told: Node['told'] = [];
      const key = secretKey === undefined ? (options.secretKey ?? SECRET_KEY) : secretKey;
      const shared = { webhookSecret: WEBHOOK_SECRET, apiBase: stripe.url, returnBase: RETURN_BASE };
      const billing = createBilling({
        sqlOf: () => nodeSql,
        plans: plansOf(PLANS, key === null ? null : PRICES),
        settings: key === null ? null : { secretKey: key, ...shared },
        planChanged: async (userId, plan) => {
          await onPlanChanged?.(userId, plan);
          told.push([userId, plan]);
        },
        log,
        now,
        ...(stripeTimeoutMs === undefined ? {} : { stripeTimeoutMs }),
      });
      const authenticate = createAuthenticate(sql);
      const routes = [
        createWebhookRoute({ billing, sql: nodeSql, log, now }),
        ...behindSignIn(createBillingRoutes(billing), authenticate),
      ];
      const http = await startServer({
        host: '127.0.0.1',
        port: 0,
        handle: createRouter(routes, (_, error) => log.error({ err: error }, 'unforeseen error')),
        onEnd: () => undefined,
      });
      stops.push(() => http.stop(1_000));
      const url = `http://127.0.0.1:${http.port}`;
      return { url, billing, told, ask: (userId, method, path, body) => ask(url, userId, method, path, body) };
    },
    async user(plan = 'FREE') {
      users += 1;
      return await newUser(sql, `buyer${users}@example.org`, { plan });
    },
    async planOf(userId) {
      const [row] = await sql<{ plan: string }[]>`SELECT plan FROM users WHERE id = ${userId}`;
      return row?.plan ?? '';
    },
  };
  return { world, end };
}

async function startStore(): Promise<{ target: PostgresTarget; stop: () => Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'billing-test-'));
  await seedMigrated(folder);
  const { socketDirectory, stop } = await startEmbedded({ dataDirectory: folder });
  return {
    target: { kind: 'embedded', socketDirectory },
    async stop() {
      await stop();
      rmSync(folder, { recursive: true });
    },
  };
}

/** `Bearer user:<uuid>`, where the real one has a token. */
function createAuthenticate(sql: Sql): Authenticate {
  return async (exchange) => {
    const userId = /^Bearer user:([0-9a-f-]{36})$/.exec(exchange.headers.get('authorization') ?? '')?.[1];
    if (userId === undefined) throw new Failure('tokenMissing');
    const [row] = await sql<{ plan: string }[]>`SELECT plan FROM users WHERE id = ${userId}`;
    if (row === undefined) throw new Failure('tokenInvalid');
    return { userId, plan: row.plan, ownLimit: null, role: 'user', sessionId: null, twoFactor: false };
  };
}

async function ask(url: string, userId: string, method: string, path: string, body?: unknown): Promise<WebAnswer> {
  const response = await fetch(`${url}/web/billing/${path}`, {
    method,
    headers: {
      Authorization: `Bearer user:${userId}`,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const value: unknown = await response.json();
  if (typeof value !== 'object' || value === null) throw new Error('Not a JSON object');
  return { status: response.status, headers: response.headers, body: { ...value } };
}

/** Every row of every table, as text. */
async function dump(sql: Sql): Promise<string> {
  const tables = await sql<{ name: string }[]>`
    SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`;
  const rows: string[] = [];
  for (const { name } of tables) {
    for (const row of await sql.unsafe(`SELECT t::text AS text FROM "${name}" t`)) rows.push(String(row['text']));
  }
  return rows.join('\n');
}

/** Opens a checkout, has it paid at Stripe, and returns the subscription; the service hasn't heard of it yet. */
export async function buy(world: World, node: Node, userId: string, plan: string) {
  const { body, status } = await node.ask(userId, 'POST', 'checkout-session', { plan });
  if (status !== 200) throw new Error(`The checkout answered ${status}: ${JSON.stringify(body)}`);
  return world.stripe.account.pay(String(body['id']));
}
