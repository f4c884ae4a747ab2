// What operators ask for, checked as it comes in, as queries with a name each.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { z } from 'zod/mini';
import { ask } from '../api/client.ts';
import { asked } from '../api/queries.ts';
import { Days, User } from '../api/shapes.ts';

const text = z.nullable(z.string());
const amount = z.nullable(z.number());
const Lent = z.object({
  lentBytes: z.number(),
  budgetBytes: z.number(),
  accounts: z.number(),
  largestAccountBytes: z.number(),
  waiting: z.number(),
});

export const Update = z.object({ state: z.enum(['idle', 'running', 'done', 'failed']), lines: z.array(z.string()) });

const Health = z.object({
  process: z.object({
    version: z.string(),
    node: z.string(),
    host: z.string(),
    pid: z.number(),
    processes: z.number(),
    uptimeSeconds: z.number(),
  }),
  engine: z.object({
    state: z.enum(['loading', 'ready', 'failed']),
    description: text,
    signatures: z.number(),
    standing: z.nullable(z.enum(['starter', 'current', 'old', 'other'])),
    builtAt: amount,
    problem: text,
    progress: amount,
  }),
  threads: z.object({
    threads: z.number(),
    running: z.number(),
    standIns: z.number(),
    waiting: z.number(),
    accountsWaiting: z.number(),
    late: z.number(),
    hung: z.number(),
  }),
  memory: z.object({
    residentBytes: z.number(),
    limitBytes: amount,
    heapBytes: z.number(),
    uploads: Lent,
    downloads: Lent,
    verdictCacheBytes: z.number(),
  }),
  stores: z.object({ database: text, isEmbedded: z.boolean(), admission: text, hasRedis: z.boolean() }),
  journal: z.object({
    rows: z.number(),
    bytes: z.number(),
    oldestSeconds: z.number(),
    damagedFiles: z.number(),
    problem: text,
  }),
  nodes: z.array(
    z.object({
      id: z.string(),
      host: z.string(),
      pid: z.number(),
      version: z.string(),
      engine: text,
      signatures: z.number(),
      builtAt: amount,
      since: z.string(),
      lastHeard: z.string(),
      isSilent: z.boolean(),
      answers: z.boolean(),
    }),
  ),
  suspects: z.number(),
  refused: z.array(z.string()),
  update: Update,
});
export type Health = z.infer<typeof Health>;

const Account = z.extend(User, {
  ownLimit: amount,
  suspendedAt: text,
  keys: z.number(),
  sessions: z.number(),
  scans: z.number(),
  lastUse: text,
});
export type Account = z.infer<typeof Account>;

const Accounts = z.object({ accounts: z.array(Account), total: z.number(), plans: z.array(z.string()) });

export const AccountDetail = z.extend(Account, {
  days: Days,
  keyList: z.array(
    z.object({ uuid: z.string(), name: z.string(), value: z.string(), creationDate: z.string(), lastUse: text }),
  ),
  sessionList: z.array(
    z.object({
      id: z.string(),
      userAgent: z.string(),
      ipAddress: z.string(),
      creationDate: z.string(),
      lastUse: z.string(),
    }),
  ),
});
export type AccountDetail = z.infer<typeof AccountDetail>;

const Scan = z.object({
  id: z.string(),
  userId: z.string(),
  email: text,
  at: z.string(),
  durationMillis: z.number(),
  sizeInBytes: amount,
});
export type NotedScan = z.infer<typeof Scan>;
const Activity = z.object({
  days: Days,
  since: z.string(),
  errorsSince: z.string(),
  errors: z.array(
    z.object({
      status: z.number(),
      reason: z.string(),
      count: z.number(),
      examples: z.array(Scan),
    }),
  ),
  slowest: z.array(Scan),
  refusals: z.array(z.object({ userId: z.string(), email: z.string(), refused: z.number() })),
});
export type Activity = z.infer<typeof Activity>;

const Audit = z.object({
  lines: z.array(
    z.object({
      id: z.string(),
      at: z.string(),
      actor: z.string(),
      address: text,
      action: z.string(),
      target: text,
      detail: z.record(z.string(), z.unknown()),
    }),
  ),
  next: text,
});
export type AuditLine = z.infer<typeof Audit>['lines'][number];

/** A tab that nobody looks at asks for nothing: TanStack Query waits until it is looked at. */
const LIVE_MS = 2_000;
const ACTIVITY_MS = 10_000;

export const healthQuery = queryOptions({
  ...asked(['admin', 'health'], '/web/admin/health', Health),
  refetchInterval: LIVE_MS,
});

export const activityQuery = queryOptions({
  ...asked(['admin', 'activity'], '/web/admin/activity', Activity),
  refetchInterval: ACTIVITY_MS,
});

export function accountsQuery(q: string, page: number) {
  return queryOptions({
    queryKey: ['admin', 'accounts', q, page],
    queryFn: ({ signal }) =>
      ask({ path: `/web/admin/accounts?${new URLSearchParams({ q, page: String(page) })}`, shape: Accounts, signal }),
    placeholderData: keepPreviousData,
  });
}

export function accountQuery(id: string) {
  return asked(['admin', 'account', id], `/web/admin/accounts/${id}`, AccountDetail);
}

/** The newest first, in pages. */
export const auditQuery = infiniteQueryOptions({
  queryKey: ['admin', 'audit'],
  queryFn: ({ pageParam, signal }) =>
    ask({ path: `/web/admin/audit${pageParam === null ? '' : `?before=${pageParam}`}`, shape: Audit, signal }),
  initialPageParam: null as string | null,
  getNextPageParam: ({ next }) => next,
});
