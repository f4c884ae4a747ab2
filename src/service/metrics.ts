// What the service counts and measures, in the text format of Prometheus: scans as they end, everything else when it is asked for; and the server on the loopback that
// says it, GET /metrics and nothing else.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Config } from '../config/config.js';
import type { History } from '../history/history.js';
import type { Log } from '../log.js';
import type { UploadMemory } from '../scan/memory/memory.js';
import type { AcceptedState } from '../scan/pending/accepted-scans.js';
import type { OutboxLook } from '../webhooks/deliveries.js';
import type { Outbox } from '../webhooks/sender.js';
import { problemOf } from './endpoints.js';
import type { Parts } from './parts.js';
import { Figures, RequestMetrics, type Sample, ScanMetrics } from './scan-metrics.js';

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
  const { figures, ...counts } = createCounts(registry);
  const own = { epoch: 0, scans: 0 };
  addPool(figures, parts.pool);
  addMemory(figures, 'upload', parts.memories.uploads);
  addMemory(figures, 'download', parts.memories.downloads);
  addCache(figures, parts.cache);
  addJournal(figures, parts.history);
  addStores(figures, parts);
  addSignatures(figures, parts);
  addGates(figures, parts.signatures, own);
  return {
    contentType: registry.contentType,
    ...counts,
    /** Scans of this engine that nobody asked for. */
    leaveOut: (epoch: number, scans: number) => Object.assign(own, { epoch, scans }),
    /** What is not there yet when the first scans are counted. */
    follow(followed: FollowedParts): void {
      addAccepted(figures, followed.accepted);
      addOutbox(figures, followed);
    },
    render: () => registry.metrics(),
  };
}

/** What is counted as it happens. */
export function createCounts(registry: Registry) {
  const figures = new Figures(registry);
  const scans = new ScanMetrics(figures);
  return {
    figures,
    ended: scans.ended,
    /** A scan was refused before its admission, since too many wait. */
    refused: scans.refused,
    /** A scan by a protocol beside HTTP was not admitted. */
    turnedAway: scans.turnedAway,
    /** Of HTTP. Status null: the client went away before its answer was out. */
    answered: new RequestMetrics(figures).answered,
  };
}

function addStores(figures: Figures, { admission, postgres }: MetricsParts): void {
  figures.flag(
    'sluice_admission_degraded',
    '1: Redis is away, and keys and quota are served from Postgres.',
    () => admission.problem() !== null,
  );
  // As /readyz does.
  figures.gauge('sluice_store_up', '1: the database has just answered; 0: it has not.', async () =>
    Number((await problemOf(postgres)) === null),
  );
}

function addAccepted(figures: Figures, state: FollowedParts['accepted']): void {
  figures.gauge(
    'sluice_accepted_scans',
    'Scans that this process has accepted with 202, and whose verdict is not in the database yet.',
    () => state().waiting,
  );
  figures.gauge(
    'sluice_accepted_bytes',
    'Room on the disk of the contents of accepted scans; ASYNC_STORE_MB at most.',
    () => state().bytes,
  );
  figures.gauge(
    'sluice_accepted_oldest_seconds',
    'Age of the oldest of the accepted scans; 0: there is none.',
    () => state().oldestAgeMs / 1000,
  );
}

/** Of all nodes, in the database: without its answer they are absent. */
function addOutbox(figures: Figures, { outbox, attempts }: FollowedParts): void {
  figures.gauge(
    'sluice_webhook_deliveries_waiting',
    'Deliveries of webhooks that wait, of all nodes, those for receivers that fail included; absent while the database does not answer.',
    async () => (await outbox())?.waiting ?? null,
  );
  figures.gauge(
    'sluice_webhook_overdue_seconds',
    'How long the oldest delivery is due whose receiver takes what it is sent; absent while the database does not answer.',
    async () => {
      const state = await outbox();
      return state === null ? null : state.overdueMs / 1000;
    },
  );
  figures.counter(
    'sluice_webhook_attempts_total',
    'Attempts of this process to deliver, by outcome: delivered, failed (there will be another one), or given_up.',
    () => byOutcome({ delivered: attempts.delivered, failed: attempts.failed, given_up: attempts.givenUp }),
  );
}

function addPool(figures: Figures, pool: MetricsParts['pool']): void {
  figures.gauge('sluice_scan_threads', 'Scan threads of the set, which is there always.', () => pool.threads);
  figures.gauge(
    'sluice_scan_threads_standing_in',
    'Scan threads at scans beside the set: at content over 1 MB, and at scans that would wait behind long ones.',
    () => pool.standIns,
  );
  figures.gauge('sluice_scans_running', 'Scans that a thread is at.', () => pool.running);
  figures.gauge('sluice_scans_waiting', 'Scans that wait for a thread.', () => pool.waiting);
  figures.gauge('sluice_accounts_waiting', 'Accounts with scans that wait for a thread.', () => pool.accountsWaiting);
  figures.gauge(
    'sluice_scan_threads_late',
    'Scan threads that are not back from a scan long after its deadline.',
    () => pool.late,
  );
  figures.gauge(
    'sluice_scan_threads_hung',
    'Scan threads that do not come back from a scan and were given up.',
    () => pool.hung,
  );
}

function addCache(figures: Figures, cache: MetricsParts['cache']): void {
  figures.gauge(
    'sluice_verdict_cache_entries',
    'Verdicts that are remembered: of a content, and once more for each account that had it scanned.',
    () => cache?.entries ?? 0,
  );
  figures.gauge(
    'sluice_verdict_cache_bytes',
    'Memory of the verdicts that are remembered, about.',
    () => cache?.sizeBytes ?? 0,
  );
}

function addJournal(figures: Figures, { state }: History): void {
  figures.gauge('sluice_journal_rows', 'Rows of the history that wait for the database.', () => state().rows);
  figures.gauge('sluice_journal_bytes', 'Bytes of the journal whose rows wait for the database.', () => state().bytes);
  figures.gauge(
    'sluice_journal_oldest_seconds',
    'Age of the oldest row of the history that waits for the database, at most.',
    () => state().oldestAgeMs / 1000,
  );
  figures.gauge(
    'sluice_journal_damaged_files',
    'Files of the journal that could not be read as a whole, put aside in journal/damaged.',
    () => state().damagedFiles,
  );
  figures.flag(
    'sluice_journal_refuses',
    '1: scans are refused because they could not be recorded.',
    () => state().problem !== null,
  );
}

function addMemory(figures: Figures, kind: 'upload' | 'download', memory: UploadMemory): void {
  const prefix = `sluice_${kind}_memory`;
  const most = `${kind.toUpperCase()}_MEMORY_MB at most.`;
  figures.gauge(
    `${prefix}_bytes`,
    `Memory that ${kind}s have now, with what waits for a buffer; ${most}`,
    () => memory.lentBytes,
  );
  figures.gauge(
    `${prefix}_waiting_bytes`,
    `Bytes of ${kind}s that have arrived and wait for a buffer.`,
    () => memory.waitingBytes,
  );
  figures.gauge(`${prefix}_accounts`, `Accounts with ${kind}s on their way or in a scan.`, () => memory.accounts);
  figures.gauge(
    `${prefix}_largest_account_bytes`,
    `Memory that the account with most of it has for ${kind}s.`,
    () => memory.largestAccountBytes,
  );
  figures.gauge(
    `sluice_${kind}s_waiting`,
    `${kind === 'upload' ? 'Uploads' : 'Downloads'} that wait for memory.`,
    () => memory.waiting,
  );
  figures.counter(
    `${prefix}_ended_total`,
    `Ended ${kind}s: another account waited for the memory that they held.`,
    () => memory.ended,
  );
}

function byOutcome(counts: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(counts).map(([outcome, value]) => ({ labels: { outcome }, value }));
}

function addSignatures(figures: Figures, { signatures, standing, loads }: MetricsParts): void {
  const { serving } = signatures;
  figures.counter(
    'sluice_signature_loads_total',
    'Loads of signatures by this process, the first one included, by what came of them: loaded, or failed.',
    () => byOutcome({ loaded: loads.loaded, failed: loads.failed }),
  );
  figures.gauge(
    'sluice_signatures',
    'Signatures of the engine that serves; 0: none does.',
    () => serving.engine?.signatureCount ?? 0,
  );
  figures.flag('sluice_signatures_starter', '1: only the few signatures serve that ship with Sluice.', () => {
    const { engine } = serving;
    return engine !== null && standing(engine) === 'starter';
  });
  figures.gauge('sluice_signatures_epoch', 'Counts the loads of this process.', () => serving.engine?.epoch ?? 0);
  figures.flag(
    'sluice_signatures_reload_failed',
    '1: newer signatures could not be loaded, the old ones go on.',
    () => {
      const state = signatures.state();
      return state.kind === 'ready' && state.reload.kind === 'failed';
    },
  );
  figures.flag(
    'sluice_engine_stands_in',
    '1: YARA rules serve though ClamAV was wanted.',
    () => (serving.engine?.standsInFor ?? null) !== null,
  );
  figures.gauge(
    'sluice_signatures_built_seconds',
    'When the signatures were built, in epoch seconds: the newest official database, or else the newest file that says it; absent where none does.',
    () => serving.engine?.signaturesBuiltAt ?? null,
  );
  figures.gauge(
    'sluice_signatures_daily_age_seconds',
    'Age of the newest official daily database; absent without one.',
    () => {
      const builtAt = serving.engine?.dailyBuiltAt ?? null;
      return builtAt === null ? null : Math.max(0, Date.now() / 1000 - builtAt);
    },
  );
  figures.gauge('sluice_engine_info', 'Always 1; the label says what serves, as in X-Scan-Engine.', () => {
    const { engine } = serving;
    return engine === null ? null : [{ labels: { engine: engine.description }, value: 1 }];
  });
}

/** `own`: scans that nobody asked for. */
function addGates(
  figures: Figures,
  signatures: MetricsParts['signatures'],
  own: { readonly epoch: number; readonly scans: number },
): void {
  const { serving } = signatures;
  const gates = () => serving.engine?.gates ?? null;
  const statistics = () => gates()?.statistics() ?? null;
  figures.gauge(
    'sluice_gates_signatures',
    'Logical and extended signatures behind gates; 0: there are no gates.',
    () => gates()?.gated ?? 0,
  );
  figures.gauge(
    'sluice_gates_kept',
    'Logical and extended signatures that every content is asked about, by why they have no gate.',
    () => Object.entries(gates()?.kept ?? {}).map(([reason, count]) => ({ labels: { reason }, value: count ?? 0 })),
  );
  figures.gauge(
    'sluice_gates_given_up',
    'Gates that hit clean content before, and are not used.',
    () => gates()?.givenUp ?? 0,
  );
  figures.gauge('sluice_gates_scans', 'Scans by the engine that serves, since it was loaded with gates.', () => {
    const scans = statistics()?.scans ?? 0;
    return serving.engine?.epoch === own.epoch ? scans - own.scans : scans;
  });
  figures.gauge(
    'sluice_gates_second_looks',
    'Scans by the engine that serves in which a gate hit, so that other engines looked again.',
    () => statistics()?.secondLooks ?? 0,
  );
  figures.gauge(
    'sluice_gates_lookers',
    'Engines that have looked again, over all second looks since the load.',
    () => statistics()?.lookers ?? 0,
  );
  figures.gauge(
    'sluice_gates_in_vain',
    'Second looks since the load in which no signature behind the gates matched.',
    () => statistics()?.inVain ?? 0,
  );
  figures.gauge('sluice_gates_noisy', 'Gates that hit in vain since the load.', () => statistics()?.noisy.length ?? 0);
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
    if (!isTold) log.warn({ port: adminPort, reason: error.message }, 'there are no metrics yet');
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
