// Scans, put together: what those of all protocols have in common, what is said of them when they have ended, by webhooks as well, and asynchronous ones with where
// their contents lie.
import { join } from 'node:path';
import type { AccessControl } from '../admission/access.js';
import type { Config } from '../config/config.js';
import {
  createDownloads,
  createPosts,
  createResolve,
  type DiallingOptions,
  readHostsFile,
} from '../download/downloads.js';
import { createGuard } from '../download/guard.js';
import { messageOfError } from '../error-text.js';
import { createPendingScans, createScanWaits } from '../history/pending-scans.js';
import { ownerText } from '../history/scan-row.js';
import { scanView } from '../history/scan-view.js';
import { findScan, namesOfKeys } from '../history/stats.js';
import type { EndedRequest } from '../http/server.js';
import { DISK_ANSWER_MS, MEMORY_RESERVE_SHARE } from '../limits.js';
import { type EventLog, seldom } from '../log.js';
import type { AcceptingParts } from '../scan/http/accepting-scan.js';
import { createKeptAnswers, type KeptAnswers } from '../scan/http/idempotency.js';
import { createScanRoutes, type Once, type ScanRouteParts } from '../scan/http/route.js';
import { UploadMemory } from '../scan/memory/memory.js';
import { type AcceptedState, startAcceptedScans } from '../scan/pending/accepted-scans.js';
import { openContentStore } from '../scan/pending/content-store.js';
import type { EndedScan, ScanParts } from '../scan/scan.js';
import { createRefunds } from '../scan/scan-facts.js';
import {
  createKnownVerdicts,
  createSharedVerdicts,
  type SharedVerdicts,
  type VerdictCache,
} from '../scan/verdicts/known.js';
import { serviceKey } from '../store/keys.js';
import type { Postgres } from '../store/postgres.js';
import type { RedisCommands } from '../store/redis/redis.js';
import {
  areSealedOtherwise,
  createDeliveries,
  createEndpoints,
  createOutboxLook,
  type Delivery,
} from '../webhooks/deliveries.js';
import { createWebhookRoutes } from '../webhooks/routes.js';
import { messageOf, OUTBOX, Outbox } from '../webhooks/sender.js';
import { jsonName, jsonText } from '../wire-text.js';
import type { Metrics } from './metrics.js';
import { pathWithoutKey } from './observing.js';
import type { Add, Parts, Stopping } from './parts.js';

type SharedByScans = Pick<Parts, 'memories' | 'pool' | 'signatures' | 'refused' | 'descriptors' | 'version'>;

/** What scans leave behind, and who may ask for them. */
interface Surrounding extends Pick<ScanParts, 'history' | 'onEnded' | 'traces'> {
  readonly onRefused: ScanRouteParts['onRefused'];
  readonly access: AccessControl;
  readonly cache: VerdictCache | null;
  readonly shared: SharedVerdicts | null;
  readonly once: Once | null;
  /** Asynchronous scans, which begin with it; null: there are none. */
  readonly later: ((scans: ScanParts) => AcceptingParts) | null;
}

export function openScans(
  config: Config,
  log: EventLog,
  { refused, pool, signatures, memories, descriptors, version }: SharedByScans,
  { access, cache, shared, once, later, history, onEnded, onRefused, traces }: Surrounding,
) {
  const scans: ScanParts = {
    pool,
    refused,
    signatures,
    known: cache === null ? null : createKnownVerdicts({ cache, shared, scope: config.verdictScope }),
    uploadMemory: memories.uploads,
    downloads: createDownloads({
      ...diallingOf(config, version),
      limits: { perUser: config.downloadsPerUser, total: descriptors.downloads },
      timeoutMs: config.downloadTimeoutMs,
    }),
    downloadMemory: memories.downloads,
    history,
    refunds: createRefunds(),
    appEnv: config.appEnv,
    now: Date.now,
    onEnded,
    traces,
  };
  const { uploadTimeoutMs } = config;
  const routes = createScanRoutes({
    ...{ scans, access, once, uploadTimeoutMs },
    aside: memories.uploads,
    later: later === null ? null : later(scans),
    onSurprise: tellOfSurprises(log),
    onRefused,
  });
  return { scans, ...routes };
}

export function tellOfSurprises(log: EventLog): (exchange: EndedRequest, error: unknown) => void {
  return (exchange, error) => log.error({ ...about(exchange), err: error }, 'unforeseen error');
}

export function keepAnswers(log: EventLog, { requests }: Postgres, add: (part: Stopping) => unknown): KeptAnswers {
  const onProblem = seldom((reason) => log.warn({ reason }, 'answers for an Idempotency-Key could not be kept'));
  const kept = createKeptAnswers({ sqlOf: requests, onProblem: (error) => onProblem(messageOfError(error)) });
  add({ stop: async () => kept.stop() });
  return kept;
}

export function tellOfScans(log: Pick<EventLog, 'event'>, metrics: Pick<Metrics, 'ended'>): (scan: EndedScan) => void {
  return (scan) => {
    // The members of a JSON object. Names and digits need no escapes, and what does is null as a rule.
    const members = [
      '"scanId":"',
      scan.scanId ?? '',
      '","requestId":"',
      scan.requestId,
      '",',
      ownerText(scan.account, scan.keyId),
      ',"protocol":"',
      scan.protocol,
      '","durationMs":',
      Math.round(scan.durationMs * 1000) / 1000,
      ',"sizeBytes":',
      scan.wholeBytes ?? 'null',
      ',"sha256":',
      jsonName(scan.sha256),
      ',',
      endText(scan),
    ];
    log.event(members, 'scan');
    metrics.ended(scan);
  };
}

/** Nearly all are clean, and by the engine that was named last. */
function endText({ lookedBy, looked, status, virusName, failure, error }: EndedScan): string {
  if (lookedBy !== lastEngine) {
    lastEngine = lookedBy;
    lastEngineText = `"engine":${jsonText(lookedBy?.description ?? null)},"cached":`;
    cleanText = `${lastEngineText}false,"status":200,"virusName":null,"failure":null,"error":null`;
  }
  if (looked === 'now' && status === 200 && virusName === null) return cleanText;
  const isCached = looked !== 'now';
  return `${lastEngineText}${isCached},"status":${status},"virusName":${jsonText(virusName)},"failure":${jsonName(failure)},"error":${jsonText(error)}`;
}

let lastEngine: EndedScan['lookedBy'] | undefined;
let lastEngineText = '';
let cleanText = '';

export function shareVerdicts(
  { verdictCacheBytes, encryptedArchives }: Config,
  redis: RedisCommands | null,
  version: string,
): SharedVerdicts | null {
  if (redis === null || verdictCacheBytes === 0) return null;
  return createSharedVerdicts(redis, { limitBytes: verdictCacheBytes, readBy: `${version} ${encryptedArchives}` });
}

export function createMemories(config: Config): Record<'uploads' | 'downloads', UploadMemory> {
  const { uploadWaitMs: waitMs } = config;
  return {
    uploads: new UploadMemory({
      budgetBytes: config.uploadMemoryBytes,
      largestBytes: config.streamLimitBytes,
      reserveShare: MEMORY_RESERVE_SHARE,
      waitMs,
      ownWaitMs: config.uploadTimeoutMs,
      use: 'uploads',
    }),
    downloads: new UploadMemory({
      budgetBytes: config.downloadMemoryBytes,
      reserveShare: MEMORY_RESERVE_SHARE,
      waitMs,
      ownWaitMs: config.downloadTimeoutMs,
      use: 'downloads',
    }),
  };
}

/** Where we may go for clients. */
function diallingOf(config: Config, version: string): DiallingOptions {
  return {
    guard: createGuard({ allowNetworks: config.urlAllowNetworks, ports: config.urlPorts }),
    resolve: createResolve({ servers: config.urlDnsServers, hosts: readHostsFile() }),
    userAgent: `Sluice/${version}`,
  };
}

/** Characters of a path that go into the log: it may be 16 KB long, and anything. */
const LOGGED_PATH = 200;

export function about({ requestId, method, path }: EndedRequest): Record<string, string> {
  return { requestId, method, path: pathWithoutKey(path).slice(0, LOGGED_PATH) };
}

/** Contents of the largest size that are in memory at once, at most. */
const LARGEST_AT_ONCE = 2;

export type OpenAccepted = Awaited<ReturnType<typeof openAccepted>>;

/** Asynchronous scans: where their contents lie, who scans them, and who waits for them. */
export async function openAccepted(
  config: Config,
  log: EventLog,
  { postgres, history, admission }: Pick<Parts, 'postgres' | 'history' | 'admission'>,
  add: Add,
) {
  const onProblem = seldom((problem) => log.warn({ problem }, 'accepted scans'));
  const table = createPendingScans(postgres.sql, postgres.requests);
  const waits = createScanWaits(table.left, (error) => onProblem(messageOfError(error)));
  add({ stop: async () => waits.stop() });
  history.onEnded((ids) => {
    for (const id of ids) waits.ended(id);
  });
  const store = await openContentStore({
    directory: join(config.dataDirectory, 'async'),
    key: await serviceKey(postgres.sql, 'contents', config.encryptionKey),
    limitBytes: config.asyncStoreBytes,
    answerMs: Math.min(DISK_ANSWER_MS, config.uploadTimeoutMs),
    placeWaitMs: config.uploadTimeoutMs,
  });
  // What is waited for with a request has its own.
  const uploadMemory = new UploadMemory({
    budgetBytes: LARGEST_AT_ONCE * config.asyncLimitBytes,
    largestBytes: config.asyncLimitBytes,
    reserveShare: MEMORY_RESERVE_SHARE,
    waitMs: config.scanTimeoutMs,
    ownWaitMs: config.scanTimeoutMs,
    use: 'uploads',
  });

  let state = (): AcceptedState => ({ waiting: 0, bytes: store.bytes, oldestAgeMs: 0 });
  return {
    /** Of the data folder, where the contents are. */
    nodeId: store.nodeId,
    table,
    waits,
    state: () => state(),
    /** Begins with what is there. To be called once. */
    start(scans: ScanParts): AcceptingParts {
      const accepted = startAcceptedScans({
        scans: { ...scans, uploadMemory },
        table,
        store,
        history,
        giveBack: admission.giveBack,
        limitBytes: config.asyncLimitBytes,
        atOnce: config.scanThreads,
        onProblem,
        onRecorded: waits.ended,
      });
      add(accepted);
      state = accepted.state;
      return {
        accepted,
        nameOfKey: async (userId, keyId) =>
          (await namesOfKeys(postgres.requests(userId), userId, [{ keyId }])).get(keyId) ?? null,
      };
    },
  };
}

export async function openWebhooks(
  config: Config,
  log: EventLog,
  { postgres, history, version }: Pick<Parts, 'postgres' | 'history' | 'version'>,
  add: Add,
) {
  const endpoints = createEndpoints(
    postgres.requests,
    await serviceKey(postgres.sql, 'webhooks', config.encryptionKey),
  );
  if (await areSealedOtherwise(postgres.requests, OUTBOX, endpoints)) {
    log.warn(
      'ENCRYPTION_KEY is another one than before: no webhook is sent until it is that again, or the webhook has a new secret',
    );
  }
  // As one account among others: however much waits, it has a part of the connections.
  const sql = postgres.requests(OUTBOX);
  const deliveries = createDeliveries(sql, postgres.requests);
  const posts = createPosts(diallingOf(config, version));
  const sender = add(
    new Outbox({
      deliveries,
      secrets: endpoints.secrets,
      posts,
      async bodyOf(userId, { scanId, event }: Delivery) {
        const scan = await findScan(sql, userId, scanId);
        if (scan === null) return null;
        const names = await namesOfKeys(sql, userId, [scan]);
        return messageOf(event, scan, scanView(scan, names));
      },
      onProblem: seldom((problem) => log.warn({ problem }, 'webhooks')),
      onSwitchedOff: (webhookId, userId) =>
        log.warn({ webhookId, userId }, 'a webhook was switched off: all attempts of three days have failed'),
    }),
  );
  const hurry = (): void => sender.hurry();
  history.onTold(hurry);
  return {
    ...createWebhookRoutes({ endpoints, deliveries, posts, hurry }),
    attempts: sender.counts,
    outbox: createOutboxLook(sql),
  };
}
