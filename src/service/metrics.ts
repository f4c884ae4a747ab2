// What the service counts and measures, in the text format of Prometheus: scans as they end, everything else when it is asked for; and the server on the loopback that
// says it, GET /metrics and nothing else.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Config } from '../config/config.js';
import type { History } from '../history/history.js';
import { whyNot } from '../http/connections.js';
import type { Log } from '../log.js';
import type { UploadMemory } from '../scan/memory/memory.js';
import type { AcceptedState } from '../scan/pending/accepted-scans.js';
import type { OutboxLook } from '../webhooks/deliveries.js';
import type { Outbox } from '../webhooks/sender.js';
import { problemOf } from './endpoints.js';
import type { Parts } from './parts.js';
import { counter, flag, gauge, RequestMetrics, register, type Sample, ScanMetrics } from './scan-metrics.js';

export type MetricsParts = Pick<
  Parts,
  'pool' | 'memories' | 'cache' | 'signatures' | 'standing' | 'history' | 'admission' | 'postgres' | 'loads'
>;

export type Metrics = ReturnType<typeof createMetrics>;

interface FollowedParts {
  readonly accepted: () => AcceptedState;
  readonly outbox: OutboxLook;
  readonly attempts: Outbox['counts'];
}

/** Each measure of the event loop's lag wakes the process: with the usual 10 ms that is most of what an idle one does. */
const LAG_EVERY_MS = 100;

export function createMetrics(parts: MetricsParts) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'sluice_', eventLoopMonitoringPrecision: LAG_EVERY_MS });
  const counts = createCounts(registry);
  const own = { epoch: 0, scans: 0 };
  addPool(registry, parts.pool);
  addMemory(registry, 'upload', parts.memories.uploads);
  addMemory(registry, 'download', parts.memories.downloads);
  addCache(registry, parts.cache);
  addJournal(registry, parts.history);
  addStores(registry, parts);
  addSignatures(registry, parts);
  addGates(registry, parts.signatures, own);
  return {
    contentType: registry.contentType,
    ...counts,
    /** Scans of this engine that nobody asked for. */
    leaveOut: (epoch: number, scans: number) => Object.assign(own, { epoch, scans }),
    /** What is not there yet when the first scans are counted. */
    follow(followed: FollowedParts): void {
      addAccepted(registry, followed.accepted);
      addOutbox(registry, followed);
    },
    render: () => registry.metrics(),
  };
}

/** What is counted as it happens. */
export function createCounts(registry: Registry) {
  const scans = new ScanMetrics(registry);
  return {
    ended: scans.ended,
    /** A scan was refused before its admission, since too many wait. */
    refused: scans.refused,
    /** A scan by a protocol beside HTTP was not admitted. */
    turnedAway: scans.turnedAway,
    /** Of HTTP. Status null: the client went away before its answer was out. */
    answered: new RequestMetrics(registry).answered,
  };
}

function addStores(registry: Registry, { admission, postgres }: MetricsParts): void {
  register(registry, {
    sluice_admission_degraded: flag(
      '1: Redis is away, and keys and quota are served from Postgres.',
      () => admission.problem() !== null,
    ),
    // As /readyz does.
    sluice_store_up: gauge('1: the database has just answered; 0: it has not.', async () =>
      Number((await problemOf(postgres)) === null),
    ),
  });
}

function addAccepted(registry: Registry, state: FollowedParts['accepted']): void {
  register(registry, {
    sluice_accepted_scans: gauge(
      'Scans that this process has accepted with 202, and whose verdict is not in the database yet.',
      () => state().waiting,
    ),
    sluice_accepted_bytes: gauge(
      'Room on the disk of the contents of accepted scans; ASYNC_STORE_MB at most.',
      () => state().bytes,
    ),
    sluice_accepted_oldest_seconds: gauge(
      'Age of the oldest of the accepted scans; 0: there is none.',
      () => state().oldestAgeMs / 1000,
    ),
  });
}

/** Of all nodes, in the database: without its answer they are absent. */
function addOutbox(registry: Registry, { outbox, attempts }: FollowedParts): void {
  register(registry, {
    sluice_webhook_deliveries_waiting: gauge(
      'Deliveries of webhooks that wait, of all nodes, those for receivers that fail included; absent while the database does not answer.',
      async () => (await outbox())?.waiting ?? null,
    ),
    sluice_webhook_overdue_seconds: gauge(
      'How long the oldest delivery is due whose receiver takes what it is sent; absent while the database does not answer.',
      async () => {
        const state = await outbox();
        return state === null ? null : state.overdueMs / 1000;
      },
    ),
    sluice_webhook_attempts_total: counter(
      'Attempts of this process to deliver, by outcome: delivered, failed (there will be another one), or given_up.',
      () => byOutcome({ delivered: attempts.delivered, failed: attempts.failed, given_up: attempts.givenUp }),
    ),
  });
}

function addPool(registry: Registry, pool: MetricsParts['pool']): void {
  register(registry, {
    sluice_scan_threads: gauge('Scan threads of the set, which is there always.', () => pool.threads),
    sluice_scan_threads_standing_in: gauge(
      'Scan threads at scans beside the set: at content over 1 MB, and at scans that would wait behind long ones.',
      () => pool.standIns,
    ),
    sluice_scans_running: gauge('Scans that a thread is at.', () => pool.running),
    sluice_scans_waiting: gauge('Scans that wait for a thread.', () => pool.waiting),
    sluice_accounts_waiting: gauge('Accounts with scans that wait for a thread.', () => pool.accountsWaiting),
    sluice_scan_threads_late: gauge(
      'Scan threads that are not back from a scan long after its deadline.',
      () => pool.late,
    ),
    sluice_scan_threads_hung: gauge(
      'Scan threads that do not come back from a scan and were given up.',
      () => pool.hung,
    ),
  });
}

function addCache(registry: Registry, cache: MetricsParts['cache']): void {
  register(registry, {
    sluice_verdict_cache_entries: gauge(
      'Verdicts that are remembered: of a content, and once more for each account that had it scanned.',
      () => cache?.entries ?? 0,
    ),
    sluice_verdict_cache_bytes: gauge(
      'Memory of the verdicts that are remembered, about.',
      () => cache?.sizeBytes ?? 0,
    ),
  });
}

function addJournal(registry: Registry, { state }: History): void {
  register(registry, {
    sluice_journal_rows: gauge('Rows of the history that wait for the database.', () => state().rows),
    sluice_journal_bytes: gauge('Bytes of the journal whose rows wait for the database.', () => state().bytes),
    sluice_journal_oldest_seconds: gauge(
      'Age of the oldest row of the history that waits for the database, at most.',
      () => state().oldestAgeMs / 1000,
    ),
    sluice_journal_damaged_files: gauge(
      'Files of the journal that could not be read as a whole, put aside in journal/damaged.',
      () => state().damagedFiles,
    ),
    sluice_journal_refuses: flag(
      '1: scans are refused because they could not be recorded.',
      () => state().problem !== null,
    ),
  });
}

function addMemory(registry: Registry, kind: 'upload' | 'download', memory: UploadMemory): void {
  const prefix = `sluice_${kind}_memory`;
  const most = `${kind.toUpperCase()}_MEMORY_MB at most.`;
  register(registry, {
    [`${prefix}_bytes`]: gauge(
      `Memory that ${kind}s have now, with what waits for a buffer; ${most}`,
      () => memory.lentBytes,
    ),
    [`${prefix}_waiting_bytes`]: gauge(
      `Bytes of ${kind}s that have arrived and wait for a buffer.`,
      () => memory.waitingBytes,
    ),
    [`${prefix}_accounts`]: gauge(`Accounts with ${kind}s on their way or in a scan.`, () => memory.accounts),
    [`${prefix}_largest_account_bytes`]: gauge(
      `Memory that the account with most of it has for ${kind}s.`,
      () => memory.largestAccountBytes,
    ),
    [`sluice_${kind}s_waiting`]: gauge(
      `${kind === 'upload' ? 'Uploads' : 'Downloads'} that wait for memory.`,
      () => memory.waiting,
    ),
    [`${prefix}_ended_total`]: counter(
      `Ended ${kind}s: another account waited for the memory that they held.`,
      () => memory.ended,
    ),
  });
}

function byOutcome(counts: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(counts).map(([outcome, value]) => ({ labels: { outcome }, value }));
}

function addSignatures(registry: Registry, { signatures, standing, loads }: MetricsParts): void {
  const { serving } = signatures;
  register(registry, {
    sluice_signature_loads_total: counter(
      'Loads of signatures by this process, the first one included, by what came of them: loaded, or failed.',
      () => byOutcome({ loaded: loads.loaded, failed: loads.failed }),
    ),
    sluice_signatures: gauge(
      'Signatures of the engine that serves; 0: none does.',
      () => serving.engine?.signatureCount ?? 0,
    ),
    sluice_signatures_starter: flag('1: only the few signatures serve that ship with Sluice.', () => {
      const { engine } = serving;
      return engine !== null && standing(engine) === 'starter';
    }),
    sluice_signatures_epoch: gauge('Counts the loads of this process.', () => serving.engine?.epoch ?? 0),
    sluice_signatures_reload_failed: flag('1: newer signatures could not be loaded, the old ones go on.', () => {
      const state = signatures.state();
      return state.kind === 'ready' && state.reload.kind === 'failed';
    }),
    sluice_engine_stands_in: flag(
      '1: YARA rules serve though ClamAV was wanted.',
      () => (serving.engine?.standsInFor ?? null) !== null,
    ),
    sluice_signatures_built_seconds: gauge(
      'When the signatures were built, in epoch seconds: the newest official database, or else the newest file that says it; absent where none does.',
      () => serving.engine?.signaturesBuiltAt ?? null,
    ),
    sluice_signatures_daily_age_seconds: gauge('Age of the newest official daily database; absent without one.', () => {
      const builtAt = serving.engine?.dailyBuiltAt ?? null;
      return builtAt === null ? null : Math.max(0, Date.now() / 1000 - builtAt);
    }),
    sluice_engine_info: gauge('Always 1; the label says what serves, as in X-Scan-Engine.', () => {
      const { engine } = serving;
      return engine === null ? null : [{ labels: { engine: engine.description }, value: 1 }];
    }),
  });
}

/** `own`: scans that nobody asked for. */
function addGates(
  registry: Registry,
  signatures: MetricsParts['signatures'],
  own: { readonly epoch: number; readonly scans: number },
): void {
  const { serving } = signatures;
  const gates = () => serving.engine?.gates ?? null;
  const statistics = () => gates()?.statistics() ?? null;
  register(registry, {
    sluice_gates_signatures: gauge(
      'Logical and extended signatures behind gates; 0: there are no gates.',
      () => gates()?.gated ?? 0,
    ),
    sluice_gates_kept: gauge(
      'Logical and extended signatures that every content is asked about, by why they have no gate.',
      () => Object.entries(gates()?.kept ?? {}).map(([reason, count]) => ({ labels: { reason }, value: count ?? 0 })),
    ),
    sluice_gates_given_up: gauge('Gates that hit clean content before, and are not used.', () => gates()?.givenUp ?? 0),
    sluice_gates_scans: gauge('Scans by the engine that serves, since it was loaded with gates.', () => {
      const scans = statistics()?.scans ?? 0;
      return serving.engine?.epoch === own.epoch ? scans - own.scans : scans;
    }),
    sluice_gates_second_looks: gauge(
      'Scans by the engine that serves in which a gate hit, so that other engines looked again.',
      () => statistics()?.secondLooks ?? 0,
    ),
    sluice_gates_lookers: gauge(
      'Engines that have looked again, over all second looks since the load.',
      () => statistics()?.lookers ?? 0,
    ),
    sluice_gates_in_vain: gauge(
      'Second looks since the load in which no signature behind the gates matched.',
      () => statistics()?.inVain ?? 0,
    ),
    sluice_gates_noisy: gauge('Gates that hit in vain since the load.', () => statistics()?.noisy.length ?? 0),
  });
}

const LOOPBACK = '127.0.0.1';
/** A process that is replaced leaves its port within this and a moment. */
const RETRY_MS = 1_000;

/** Begins to listen without a wait for it: scans are served also while the port is taken. Returns what ends it. */
export function startMetrics({ adminPort, processes }: Config, log: Log, metrics: Metrics): () => Promise<void> {
  const server = createServer((request, response) => {
    answer(request, response, metrics).catch(() => response.destroy());
  });
  let retry: NodeJS.Timeout | null = null;
  let tried = 0;
  let isTold = false;
  // Each process of the service has one of the ports in a row; 0: a free one is chosen.
  const listen = (): void => void server.listen(adminPort === 0 ? 0 : adminPort + (tried % processes), LOOPBACK);
  server.on('listening', () => {
    const address = server.address();
    if (address !== null && typeof address === 'object') log.info({ port: address.port }, 'metrics');
  });
  server.on('error', (error) => {
    tried += 1;
    if (tried % processes !== 0) return listen();
    if (!isTold) log.warn({ port: adminPort, reason: whyNot(error, 'ADMIN_PORT') }, 'there are no metrics yet');
    isTold = true;
    retry = setTimeout(listen, RETRY_MS).unref();
  });
  listen();
  return async () => {
    if (retry !== null) clearTimeout(retry);
    server.removeAllListeners('error').on('error', () => undefined);
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  };
}

async function answer(request: IncomingMessage, response: ServerResponse, metrics: Metrics): Promise<void> {
  const [path] = (request.url ?? '').split('?', 1);
  if (!isForUs(request.headers.host)) return end(response, 403, 'The host is not this machine\n');
  if (path !== '/metrics') return end(response, 404, 'Only /metrics is here\n');
  if (request.method !== 'GET' && request.method !== 'HEAD') return end(response, 405, 'Only GET\n');
  const text = await metrics.render();
  response.writeHead(200, { 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store' });
  response.end(request.method === 'HEAD' ? undefined : text);
}

/** A page in a browser on this machine may send its own host's name here, but not an address. */
function isForUs(host: string | undefined): boolean {
  const name = (host ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || isIP(name) !== 0;
}

function end(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' });
  response.end(text);
}
