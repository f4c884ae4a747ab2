// HTTP of the service: all that is served put together, the server that is listened to and stopped in order, and what a new process does before its first request.
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { Registry } from 'prom-client';
import { openDashboard } from '../account/dashboard.js';
import { throttledAs } from '../account/throttle.js';
import { limitOfUser } from '../account/users.js';
import {
  createAccess,
  createAccountRoute,
  createKeyAccess,
  createQuotaRoutes,
  createReadRate,
  liveKey,
} from '../admission/access.js';
import { recentKeys } from '../admission/key-owners.js';
import { type Billing, createBilling } from '../billing/billing.js';
import { startUpkeep } from '../billing/reconcile.js';
import { createBillingRoutes, createWebhookRoute } from '../billing/route.js';
import { type Config, ownIssuer, readVersion } from '../config/config.js';
import { createStandings } from '../engine/folders.js';
import { messageOfError } from '../error-text.js';
import { createHistoryRoutes } from '../history/route.js';
import { createScanRoutes } from '../history/scans-route.js';
import { behindKey, behindSignIn, type KeyRoute } from '../http/caller.js';
import { type ConnectionLimits, type DescriptorPlan, planDescriptors } from '../http/connections.js';
import { createRouter, type Route } from '../http/router.js';
import { chooseLibrary, type EndedRequest, type Server, startServer } from '../http/server.js';
import type { HttpLibrary } from '../http/wire.js';
import { CLAMD_CONNECTIONS, DOWNLOADS_MAX, DRAIN_MS, ICAP_CONNECTIONS } from '../limits.js';
import type { EventLog, Log } from '../log.js';
import { ownDeletion } from '../operator/changes.js';
import { dashboardDirectory, packageJsonPath } from '../paths.js';
import { createVerdictCache } from '../scan/verdicts/known.js';
import { createRoutes, openPages, type Pages } from './endpoints.js';
import { createCounts, createMetrics, type Metrics, startMetrics } from './metrics.js';
import { openAccessLog, openTraces } from './observing.js';
import { openOperators, type SupervisorsWord } from './operators.js';
import { type Add, type Parts, starting } from './parts.js';
import { createProtocols } from './protocols.js';
import {
  about,
  createMemories,
  keepAnswers,
  type OpenAccepted,
  openAccepted,
  openScans,
  openWebhooks,
  shareVerdicts,
  tellOfScans,
  tellOfSurprises,
} from './scans.js';
import { startTrialAdmission } from './stores.js';
import { openTrialHistory, scanForItself } from './warm-up.js';

/** Requests in flight get so long at a stop. */
const STOP_GRACE_MS = 30_000;
/** Connections of a replaced process get so long without a request: three times what uWebSockets.js lets an idle one live. */
const IDLE_MS = 30_000;
/** Whose first scans find all that admission asks of them. */
const KEYS_PREPARED = 16;
const TRIAL_CACHE_BYTES = 65_536;
/** For what stops after the requests: the history, the stores. */
const CLOSING_MS = 30_000;

/** What it has from the rest of the service; the others it makes. */
type HttpParts = Omit<Parts, keyof Awaited<ReturnType<typeof ownParts>>> & { readonly supervisor: SupervisorsWord };

export async function createHttp(config: Config, log: EventLog, parts: HttpParts) {
  const { signatures } = parts;
  const all = { ...parts, ...(await ownParts(config, log)) };
  const shared: SharedParts = { ...all, metrics: createMetrics(all) };
  const pages = openPages(dashboardDirectory);
  let isWarm = false;
  // What can't load has nothing to warm up, and serves as soon as it can.
  const ready = signatures.ready().then(
    async (engine) => {
      await warmUp(config, log, shared);
      isWarm = true;
      return engine;
    },
    (error: unknown) => {
      isWarm = true;
      throw error;
    },
  );
  ready.catch(() => undefined);
  return await starting(async (add) => {
    const served = await openRoutes(config, log, { ...shared, pages, isWarm: () => isWarm }, add);
    const serving = add(createServing(config, log, { ...shared, ...served, strayPage: pages.strayPage }));
    /** `ready`: the process has loaded its engine, and scanned for itself; rejects when the signatures can't be loaded. */
    return { ...serving, ready };
  });
}

async function ownParts(config: Config, log: EventLog) {
  const library = await chooseLibrary(config.httpServer);
  tellOfLibrary(library, log);
  const descriptors = planDescriptors({
    ...config,
    downloads: DOWNLOADS_MAX,
    clamdConnections: config.clamd === null ? 0 : CLAMD_CONNECTIONS,
    icapConnections: config.icap === null ? 0 : ICAP_CONNECTIONS,
  });
  tellOfDescriptors(descriptors, config, log);
  return {
    ...{ library, descriptors },
    cache: config.verdictCacheBytes === 0 ? null : createVerdictCache({ limitBytes: config.verdictCacheBytes }),
    memories: createMemories(config),
    standing: createStandings(config.signatureFolders, Date.now),
    version: readVersion(),
  };
}

type SharedParts = Parts & HttpParts & { readonly metrics: Metrics };

/** Everything that is served: the rooms' routes, and those of the operators. */
async function openRoutes(config: Config, log: EventLog, parts: Observed & { readonly pages: Pages }, add: Add) {
  const { postgres, admission, history, version, pages } = parts;
  const { directories, optionalDirectories } = config.signatureFolders;
  const access = createAccess(admission, config.plans);
  const accepted = await openAccepted(config, log, parts, add);
  const scans = openScans(config, log, parts, {
    access,
    traces: await openTraces(config, log, version, add),
    history,
    cache: parts.cache,
    shared: shareVerdicts(config, parts.redis, version),
    once: { kept: keepAnswers(log, postgres, add), findKey: parts.findKey },
    later: accepted.start,
    onEnded: tellOfScans(log, parts.metrics),
    onRefused: parts.metrics.refused,
  });
  const billing = startBilling(config, log, parts, add);
  const dashboard = add(
    await openDashboard({
      ...config,
      sqlOf: postgres.requests,
      issuer: ownIssuer(config.baseUrl),
      admission,
      deleteAccount: ownDeletion({ sqlOf: postgres.requests, nodes: admission }),
      settled: history.settled,
      log,
      now: Date.now,
    }),
  );
  const operators = add(
    openOperators(config, log, { ...parts, nodeId: accepted.nodeId, addressOf: dashboard.addressOf }),
  );
  const webhooks = await openWebhooks(config, log, parts, add);
  const followed = { accepted: accepted.state, outbox: webhooks.outbox, attempts: webhooks.attempts };
  parts.metrics.follow(followed);
  const signedIn = [
    ...scans.signedIn,
    ...webhooks.signedIn,
    ...dashboard.callerRoutes,
    ...createBillingRoutes(billing),
    ...createHistoryRoutes({ sqlOf: postgres.pages, now: Date.now, onItsWay: history, pending: accepted.table, log }),
    ...createQuotaRoutes({ admission, plans: config.plans }),
    ...operators.routes,
  ];
  const routes = createRoutes({
    served: [
      scans.withKey,
      ...keyRoutes(parts, accepted, webhooks.withKey),
      ...dashboard.publicRoutes,
      ...behindSignIn(signedIn, dashboard.authenticate, dashboard.likelyUser),
      createWebhookRoute({ billing, sql: postgres.requests('stripe'), log, now: Date.now }),
      ...pages.routes,
    ],
    ...config,
    ...parts,
    ...followed,
    folders: [...directories, ...optionalDirectories, config.dataDirectory, tmpdir(), dirname(packageJsonPath)],
  });
  const protocols = createProtocols(config, log, { ...parts, scans: scans.scans, access });
  return { routes, addressOf: dashboard.addressOf, protocols, findRefusal: scans.findRefusal };
}

type Observed = SharedParts & { readonly isWarm: () => boolean };

/** What a key may ask for beside scans. */
function keyRoutes(
  { postgres, history, admission, signatures, findKey, redis }: HttpParts,
  { table, waits }: OpenAccepted,
  others: readonly KeyRoute[],
): Route[] {
  const { serving } = signatures;
  const parts = { sqlOf: postgres.pages, now: Date.now, onItsWay: history, pending: table, waits, serving };
  const reads = createScanRoutes(parts);
  const account = createAccountRoute({ admission, sqlOf: postgres.requests });
  return behindKey([...reads, account, ...others], createKeyAccess(findKey, createReadRate(redis)));
}

/** Once: scans that nobody asked for and that leave nothing. What fails of it is for the log; scans are served all the same. */
async function warmUp(config: Config, log: EventLog, parts: SharedParts): Promise<void> {
  const startedMs = performance.now();
  try {
    const scans = await scanOnTrial(config, log, parts);
    await parts.admission.prepare(await recentKeys(parts.postgres.admission, KEYS_PREPARED));
    log.info({ scans, warmUpMillis: Math.round(performance.now() - startedMs) }, 'ready');
  } catch (error) {
    log.warn({ reason: messageOfError(error) }, 'ready, but not warm: the first requests take longer');
  }
}
/** Resolves with how many scans there were. All of the way is as it is for others, but what they would leave. */
async function scanOnTrial(config: Config, log: EventLog, parts: SharedParts): Promise<number> {
  const { library, metrics, signatures } = parts;
  const { engine } = signatures.serving;
  const counts = createCounts(new Registry());
  const trial = await starting(async (add) => {
    const { store } = add(startTrialAdmission(config, log, parts.postgres));
    const { history } = add(await openTrialHistory());
    return openScans(config, log, parts, {
      access: createAccess(store, config.plans),
      history,
      cache: createVerdictCache({ limitBytes: TRIAL_CACHE_BYTES }),
      shared: null,
      once: null,
      later: null,
      onEnded: tellOfScans({ event: () => undefined }, counts),
      onRefused: counts.refused,
      traces: null,
    });
  });
  try {
    const handle = createRouter([trial.withKey], (_exchange, error) => log.warn({ err: error }, 'a first scan'));
    const place = {
      host: '127.0.0.1',
      port: 0,
      library,
      handle,
      onEnd: ({ route }: EndedRequest, status: number | null) => counts.answered(route, status),
    };
    const scans = await scanForItself(() => startServer(place), config.scanThreads);
    if (engine !== null) metrics.leaveOut(engine.epoch, scans);
    return scans;
  } finally {
    await trial.stop();
  }
}

type ServingParts = Pick<SharedParts, 'library' | 'descriptors' | 'listener' | 'places' | 'findKey' | 'metrics'> &
  Awaited<ReturnType<typeof openRoutes>> &
  Pick<Pages, 'strayPage'>;

function createServing(config: Config, log: EventLog, parts: ServingParts) {
  const { library, descriptors, listener, places, findKey, metrics, routes, protocols, strayPage } = parts;
  let server: Server | null = null;
  const accessLog = openAccessLog(config, parts.addressOf);
  let endMetrics: (() => Promise<void>) | null = null;
  return {
    /** Resolves with the port; rejects when the address can't be had. */
    async listen(): Promise<number> {
      server = await startServer({
        library,
        host: config.host,
        port: config.port,
        inheritedDescriptor: listener,
        share: places.shareOf('http'),
        connections: connectionLimits(config, descriptors),
        // The access log has a line for each request, and is to know where it came from.
        findRefusal: accessLog === null ? parts.findRefusal : null,
        handle: createRouter(
          routes,
          tellOfSurprises(log),
          // A client without a key learns nothing of what there is.
          {
            gate: { prefix: '/api/', check: ({ headers }) => liveKey(headers.get('x-api-key'), findKey, null) },
            page: strayPage,
          },
        ),
        onBegin: accessLog?.begin ?? null,
        onEnd(exchange, status) {
          metrics.answered(exchange.route, status);
          accessLog?.end(exchange, status);
          if (log.isLevelEnabled('debug')) log.debug({ ...about(exchange), status }, 'request');
        },
      });
      protocols.listen();
      endMetrics = startMetrics(config, log, metrics);
      log.info({ host: config.host, port: server.port }, 'listening');
      if (server.problem !== null) log.warn({ library: library.title, reason: server.problem }, 'HTTP library');
      return server.port;
    },
    stopListening(): void {
      server?.stopListening();
      protocols.stopListening();
    },
    /** Resolves when no connection is left, or none with a request after a while. */
    async drain(): Promise<void> {
      const requestMs = longestRequestMs(config);
      await Promise.all([server?.drain({ idleMs: IDLE_MS, requestMs }), protocols.drain(IDLE_MS + requestMs)]);
    },
    /** A process that takes no more connections has ended after this, with or without a drain, unless it hangs. */
    endsWithinMs(drains: boolean): number {
      if (!drains) return STOP_GRACE_MS + CLOSING_MS;
      // A scan whose client has left is waited for beyond the requests.
      return IDLE_MS + longestRequestMs(config) + config.scanTimeoutMs + CLOSING_MS;
    },
    async stop(): Promise<void> {
      await endMetrics?.();
      await Promise.all([server?.stop(STOP_GRACE_MS), protocols.stop(STOP_GRACE_MS)]);
      accessLog?.stop();
    },
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

function tellOfDescriptors({ limit, isScarce, ...plan }: DescriptorPlan, config: Config, log: EventLog): void {
  const facts = { openFiles: limit, ...plan };
  const isLess = isScarce || plan.downloads < DOWNLOADS_MAX || plan.connections < (config.connections ?? 0);
  if (isLess) log.warn(facts, 'the limit of open files is low (ulimit -n): there is room for fewer than is wanted');
  else log.info(facts, 'connections');
}

/** What no request outlasts by its own deadlines, which follow each other, and the reading of a refused body after its answer. */
function longestRequestMs({ uploadWaitMs, uploadTimeoutMs, downloadTimeoutMs, scanTimeoutMs }: Config): number {
  // Memory is waited for as long as what comes into it may take, where it is the account's own content that has it.
  return 2 * (uploadWaitMs + uploadTimeoutMs + downloadTimeoutMs) + scanTimeoutMs + DRAIN_MS;
}

function startBilling(
  config: Config,
  log: Log,
  { postgres, admission }: Pick<HttpParts, 'postgres' | 'admission'>,
  add: Add,
): Billing {
  const { sql, requests } = postgres;
  const billing = createBilling({
    sqlOf: requests,
    plans: config.plans,
    settings: config.billing,
    async planChanged(userId) {
      const limit = await limitOfUser(sql, config.plans, userId);
      if (limit !== null) await admission.setLimit(userId, limit);
    },
    log,
    now: Date.now,
  });
  const upkeep = startUpkeep({ billing, sql, log, now: Date.now });
  if (upkeep !== null) {
    add(upkeep);
    log.info({ livemode: billing.active().stripe.livemode }, 'billing is on');
  }
  return billing;
}
