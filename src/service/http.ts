// The HTTP side of the service: scans, accounts and billing wired to the server.
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { throttledAs } from '../account/client-address.js';
import { openDashboard } from '../account/dashboard.js';
import { createKeyUse, type KeyUse } from '../account/key-use.js';
import { assertLiveKey, createAccess } from '../admission/access.js';
import type { AdmissionStore } from '../admission/admission.js';
import { createQuotaRoute } from '../admission/quota-route.js';
import { type Billing, createBilling } from '../billing/billing.js';
import { createBillingRoutes } from '../billing/route.js';
import { startUpkeep } from '../billing/upkeep.js';
import { createWebhookRoute } from '../billing/webhook.js';
import { ownIssuer } from '../config/groups.js';
import { hourlyLimitOf } from '../config/plans.js';
import type { Config } from '../config/types.js';
import { createDownloads, type Downloads } from '../download/downloads.js';
import { createGuard } from '../download/guard.js';
import { readHostsFile } from '../download/hosts-file.js';
import { createResolve } from '../download/resolve.js';
import type { Signatures } from '../engine/signatures.js';
import type { ScanPool } from '../engine/threads/pool.js';
import type { Confinement } from '../engine/threads/sandbox.js';
import type { History } from '../history/history.js';
import { createHistoryRoutes } from '../history/route.js';
import { behindSignIn } from '../http/caller.js';
import type { ConnectionLimits } from '../http/connections.js';
import { type DescriptorPlan, planDescriptors } from '../http/descriptors.js';
import { chooseLibrary } from '../http/library.js';
import { createRouter, type Route } from '../http/router.js';
import { type EndedRequest, type FindFile, type Server, startServer } from '../http/server.js';
import type { HttpLibrary } from '../http/wire.js';
import { DRAIN_MS } from '../limits.js';
import type { EventLog, Log } from '../log.js';
import { dashboardDirectory, packageJsonPath } from '../paths.js';
import { createScanRoutes } from '../scan/http/route.js';
import { createUploadMemory, type UploadMemory } from '../scan/memory/memory.js';
import { createScanService, type ScanEvent } from '../scan/service.js';
import { createVerdictCache, type VerdictCache } from '../scan/verdicts/cache.js';
import { createKnownVerdicts } from '../scan/verdicts/known.js';
import { createSharedVerdicts, type SharedVerdicts } from '../scan/verdicts/shared.js';
import type { Postgres } from '../store/postgres.js';
import type { RedisCommands } from '../store/redis/redis.js';
import { codeOf } from '../store/store-error.js';
import { createRoutes } from './endpoints.js';
import { createMetrics, type Metrics } from './metrics.js';
import { startMetricsServer } from './metrics-server.js';
import { openPages, type Pages } from './pages.js';

/** Requests in flight get so long at a stop. */
const STOP_GRACE_MS = 30_000;
/** Connections of a replaced process get so long without a request: three times what uWebSockets.js lets an idle one live. */
const IDLE_MS = 30_000;
/** For what stops after the requests: the history, the stores. */
const CLOSING_MS = 30_000;

interface HttpParts {
  readonly postgres: Postgres;
  readonly admission: AdmissionStore;
  /** For paths that nobody serves: the live key of that hash, or null. */
  readonly findKey: (keyHash: string) => Promise<object | null>;
  /** For what processes share; null: they share nothing. */
  readonly redis: RedisCommands | null;
  readonly history: History;
  readonly signatures: Signatures;
  readonly pool: ScanPool;
  /** Contents that are not scanned, as SHA-256. */
  readonly refused: ReadonlySet<string>;
  /** A listening socket to accept from; null: one of its own. */
  readonly listener: number | null;
  readonly sandbox: Confinement | null;
}

export interface Http {
  /** Resolves with the port; rejects when the address can't be had. */
  listen(): Promise<number>;
  stopListening(): void;
  /** Resolves when no connection is left, or none with a request after a while. */
  drain(): Promise<void>;
  /** A process that takes no more connections has ended after this, with or without a drain, unless it hangs. */
  endsWithinMs(drains: boolean): number;
}

export async function createHttp(
  config: Config,
  log: EventLog,
  parts: HttpParts,
  stops: (() => Promise<void>)[],
): Promise<Http> {
  const { pool, signatures, history, admission } = parts;
  const library = await chooseLibrary(config.httpServer);
  tellOfLibrary(library, log);
  const descriptors = planDescriptors(config);
  tellOfDescriptors(descriptors, config, log);
  const cache = createVerdictCache({ limitBytes: config.verdictCacheBytes });
  const memories = createMemories(config);
  const metrics = createMetrics({
    pool,
    memories,
    cache,
    signatures: () => signatures.state(),
    history: () => history.state(),
    admissionProblem: () => admission.problem(),
  });
  const shared: SharedParts = { ...parts, library, descriptors, cache, memories, metrics, version: readVersion() };
  const pages = openPages(dashboardDirectory);
  const routes = await openRoutes(config, log, { ...shared, pages }, stops);
  return createServing(config, log, { ...shared, routes, findFile: pages.findFile }, stops);
}

interface SharedParts extends HttpParts {
  readonly library: HttpLibrary;
  readonly descriptors: DescriptorPlan;
  readonly cache: VerdictCache;
  readonly memories: Record<'uploads' | 'downloads', UploadMemory>;
  readonly metrics: Metrics;
  readonly version: string;
}

/** Everything that is served: the rooms' routes, and those of the operators. */
async function openRoutes(
  config: Config,
  log: EventLog,
  parts: SharedParts & { readonly pages: Pages },
  stops: (() => Promise<void>)[],
): Promise<Route[]> {
  const { postgres, admission, history, signatures, sandbox, version, library, pages } = parts;
  const keyUse = createKeyUse();
  const scans = openScans(config, log, parts, keyUse);
  const billing = startBilling(config, log, parts, stops);
  const dashboard = await openDashboard({
    ...config,
    sql: postgres.requests,
    issuer: ownIssuer(config.baseUrl),
    admission,
    recentUse: keyUse.recent,
    log,
    now: Date.now,
  });
  stops.push(() => dashboard.stop());
  const signedIn = [
    scans.signedIn,
    ...dashboard.callerRoutes,
    ...createBillingRoutes(billing),
    ...createHistoryRoutes({ sql: postgres.pages, now: Date.now, log }),
    createQuotaRoute({ admission, plans: config.plans }),
  ];
  return createRoutes({
    served: [
      scans.withKey,
      ...dashboard.publicRoutes,
      ...behindSignIn(signedIn, dashboard.authenticate),
      createWebhookRoute({ billing, sql: postgres.requests, log, now: Date.now }),
      ...pages.routes,
    ],
    signatures: () => signatures.state(),
    history: () => history.state(),
    storeProblem: () => problemOf(postgres),
    admissionProblem: () => admission.problem(),
    version,
    httpServer: library.title,
    sandbox,
  });
}

function openScans(config: Config, log: EventLog, parts: SharedParts, keyUse: KeyUse) {
  const { admission, redis, history, signatures, pool, refused, cache, memories, metrics, descriptors, version } =
    parts;
  const service = createScanService({
    pool,
    isRefused: (sha256) => refused.has(sha256),
    signatures,
    known: createKnownVerdicts({ cache, shared: shareVerdicts(config, redis, version), scope: config.verdictScope }),
    downloads: openDownloads(config, { descriptors, version }),
    downloadMemory: memories.downloads,
    history,
    appEnv: config.appEnv,
    now: Date.now,
    onScan(event) {
      log.event(fieldsOf(event), 'scan');
      metrics.scanned(event);
      if (event.keyId !== null && event.status === 200) keyUse.used(event.keyId, Date.now());
    },
  });
  return createScanRoutes({
    service,
    access: createAccess(admission, config.plans),
    uploadMemory: memories.uploads,
    uploadTimeoutMs: config.uploadTimeoutMs,
  });
}

type ServingParts = Pick<SharedParts, 'library' | 'descriptors' | 'listener' | 'findKey' | 'metrics'> & {
  readonly routes: readonly Route[];
  readonly findFile: FindFile;
};

function createServing(
  config: Config,
  log: EventLog,
  { library, descriptors, listener, findKey, metrics, routes, findFile }: ServingParts,
  stops: (() => Promise<void>)[],
): Http {
  let server: Server | null = null;
  stops.push(async () => {
    await server?.stop(STOP_GRACE_MS);
  });
  return {
    async listen() {
      server = await startServer({
        library,
        host: config.host,
        port: config.port,
        inheritedDescriptor: listener,
        connections: connectionLimits(config, descriptors),
        findFile,
        handle: createRouter(
          routes,
          (exchange, error) => log.error({ ...about(exchange), err: error }, 'unforeseen error'),
          // A client without a key learns nothing of what there is.
          { prefix: '/api/', check: ({ headers }) => assertLiveKey(headers.get('x-api-key'), findKey) },
        ),
        onEnd(exchange, status) {
          if (log.isLevelEnabled('debug')) log.debug({ ...about(exchange), status }, 'request');
        },
      });
      stops.push(startMetrics(config, log, metrics));
      log.info({ host: config.host, port: server.port }, 'listening');
      return server.port;
    },
    stopListening: () => server?.stopListening(),
    async drain() {
      await server?.drain({ idleMs: IDLE_MS, requestMs: longestRequestMs(config) });
    },
    endsWithinMs(drains) {
      if (!drains) return STOP_GRACE_MS + CLOSING_MS;
      // A scan whose client has left is waited for beyond the requests.
      return IDLE_MS + longestRequestMs(config) + config.scanTimeoutMs + CLOSING_MS;
    },
  };
}

/** Of a scan, for the log. */
function fieldsOf(event: ScanEvent): Parameters<EventLog['event']>[0] {
  return {
    scanId: event.scanId,
    requestId: event.requestId,
    userId: event.userId,
    keyId: event.keyId,
    durationMs: event.durationMs,
    sizeBytes: event.sizeBytes,
    sha256: event.sha256,
    status: event.status,
    virusName: event.virusName,
    engine: event.engine?.description ?? null,
    cached: event.cached,
    failure: event.failure,
    error: event.error,
  };
}

/** Addresses have a share where each is a client. */
const ADDRESS_SHARE = 1 / 4;
const ADDRESS_MIN = 16;

function connectionLimits(
  { connectionsPerAddress, trustedProxies }: Config,
  { connections: limit }: DescriptorPlan,
): ConnectionLimits {
  const share = Math.max(ADDRESS_MIN, Math.floor(limit * ADDRESS_SHARE));
  const perAddress = connectionsPerAddress ?? (trustedProxies.length === 0 ? share : null);
  return { limit, perAddress, groupOf: throttledAs };
}

function tellOfLibrary({ title, standsInFor }: HttpLibrary, log: EventLog): void {
  if (standsInFor === null) log.info({ library: title }, 'HTTP library');
  else
    log.info({ library: title, reason: standsInFor }, 'HTTP library: node:http, which is slower than uWebSockets.js');
}

function tellOfDescriptors(
  { limit, connections, downloads, isScarce }: DescriptorPlan,
  config: Config,
  log: EventLog,
): void {
  const facts = { openFiles: limit, connections, downloads };
  const isLess = isScarce || downloads < config.downloads || connections < (config.connections ?? 0);
  if (isLess) log.warn(facts, 'the limit of open files is low (ulimit -n): there is room for fewer than is wanted');
  else log.info(facts, 'connections');
}

/** What no request outlasts by its own deadlines, which follow each other, and the reading of a refused body after its answer. */
function longestRequestMs({ uploadWaitMs, uploadTimeoutMs, downloadTimeoutMs, scanTimeoutMs }: Config): number {
  return 2 * uploadWaitMs + uploadTimeoutMs + downloadTimeoutMs + scanTimeoutMs + DRAIN_MS;
}

function shareVerdicts(
  { verdictCacheBytes, encryptedArchives }: Config,
  redis: RedisCommands | null,
  version: string,
): SharedVerdicts | null {
  if (redis === null || verdictCacheBytes === 0) return null;
  return createSharedVerdicts(redis, { limitBytes: verdictCacheBytes, readBy: `${version} ${encryptedArchives}` });
}

function startMetrics(config: Config, log: Log, metrics: Metrics): () => Promise<void> {
  return startMetricsServer({
    metrics,
    port: config.adminPort,
    ports: config.processes,
    onListening: (port) => log.info({ port }, 'metrics'),
    onTaken: (error) => log.warn({ port: config.adminPort, reason: error.message }, 'there are no metrics yet'),
  });
}

function startBilling(
  config: Config,
  log: Log,
  { postgres, admission }: Pick<HttpParts, 'postgres' | 'admission'>,
  stops: (() => Promise<void>)[],
): Billing {
  const { sql, requests } = postgres;
  const billing = createBilling({
    sql: requests,
    plans: config.plans,
    settings: config.billing,
    planChanged: (userId, plan) => admission.setLimit(userId, hourlyLimitOf(config.plans, plan)),
    log,
    now: Date.now,
  });
  const upkeep = startUpkeep({ billing, sql, log, now: Date.now });
  if (upkeep !== null) {
    stops.push(() => upkeep.stop());
    log.info({ livemode: billing.active().stripe.livemode }, 'billing is on');
  }
  return billing;
}

/** Budgets of their own: slow origins must not keep uploads waiting. */
function createMemories(config: Config): Record<'uploads' | 'downloads', UploadMemory> {
  const { uploadMemoryBytes, downloadMemoryBytes, memoryReserveShare: reserveShare, uploadWaitMs: waitMs } = config;
  return {
    uploads: createUploadMemory({ budgetBytes: uploadMemoryBytes, reserveShare, waitMs, use: 'uploads' }),
    downloads: createUploadMemory({ budgetBytes: downloadMemoryBytes, reserveShare, waitMs, use: 'downloads' }),
  };
}

function openDownloads(
  config: Config,
  { descriptors, version }: { readonly descriptors: DescriptorPlan; readonly version: string },
): Downloads {
  return createDownloads({
    guard: createGuard({ allowNetworks: config.urlAllowNetworks, ports: config.urlPorts }),
    resolve: createResolve({ servers: config.urlDnsServers, hosts: readHostsFile() }),
    limits: { perUser: config.downloadsPerUser, total: descriptors.downloads },
    timeoutMs: config.downloadTimeoutMs,
    userAgent: `Sluice/${version}`,
  });
}

/** Null when it answers. Anybody may read this: the driver's own words hold addresses. */
async function problemOf(postgres: Postgres): Promise<string | null> {
  try {
    await postgres.ping();
    return null;
  } catch (error) {
    return `The database does not answer (${codeOf(error) ?? 'no code'})`;
  }
}

/** Characters of a path that go into the log: it may be 16 KB long, and anything. */
const LOGGED_PATH = 200;
/** A key may be deleted by its value, which then is in the path. */
const KEY_IN_PATH = /^(\/web\/keys\/)(?!me$).+/;

function about({ requestId, method, path }: EndedRequest): Record<string, string> {
  return { requestId, method, path: path.replace(KEY_IN_PATH, '$1{uuid}').slice(0, LOGGED_PATH) };
}

function readVersion(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(packageJsonPath, 'utf8'))).version;
}
