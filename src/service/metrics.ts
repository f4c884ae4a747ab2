// What the service counts and measures, in the text format of Prometheus: scans as they end, everything else when it is asked for.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Engine } from '../engine/engine.js';
import type { SignatureState } from '../engine/signature-state.js';
import type { ScanPool } from '../engine/threads/pool.js';
import type { HistoryState } from '../history/history.js';
import type { UploadMemory } from '../scan/memory/memory.js';
import type { EndedScan } from '../scan/scan.js';
import type { VerdictCache } from '../scan/verdicts/cache.js';
import { ScanMetrics } from './scan-metrics.js';
import type { Standing } from './signature-standing.js';

export interface MetricsParts {
  readonly pool: Pick<
    ScanPool,
    'waiting' | 'accountsWaiting' | 'running' | 'threads' | 'standIns' | 'late' | 'hung' | 'onTurn'
  >;
  readonly memories: Readonly<Record<'uploads' | 'downloads', Lending>>;
  readonly cache: Pick<VerdictCache, 'entries' | 'sizeBytes'>;
  readonly signatures: () => SignatureState;
  readonly standing: (engine: Engine) => Standing;
  readonly history: () => HistoryState;
  readonly admissionProblem: () => string | null;
}

type AddGauge = (name: string, help: string, read: () => number) => void;

/** What is read of a memory. */
type Lending = Pick<
  UploadMemory,
  'lentBytes' | 'waitingBytes' | 'waiting' | 'accounts' | 'largestAccountBytes' | 'ended'
>;

export interface Metrics {
  readonly contentType: string;
  ended(scan: EndedScan): void;
  /** Waits for a thread count from now on: those before were of scans that nobody asked for. */
  countTurns(): void;
  /** Scans of this engine that nobody asked for. */
  leaveOut(epoch: number, scans: number): void;
  render(): Promise<string>;
}

export function createMetrics(parts: MetricsParts): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'sluice_' });
  const scans = new ScanMetrics(registry);
  const gauge: AddGauge = (name, help, read) => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  };
  const own = { epoch: 0, scans: 0 };
  addPool(gauge, parts.pool);
  addMemory(registry, gauge, 'upload', parts.memories.uploads);
  addMemory(registry, gauge, 'download', parts.memories.downloads);
  addCache(gauge, parts.cache);
  addJournal(gauge, parts.history);
  gauge('sluice_admission_degraded', '1: Redis is away, and keys and quota are served from Postgres.', () =>
    parts.admissionProblem() === null ? 0 : 1,
  );
  addSignatures(registry, gauge, parts.signatures, own);
  addStanding(gauge, parts);
  return {
    contentType: registry.contentType,
    ended: (scan) => scans.ended(scan),
    countTurns: () => parts.pool.onTurn(scans.waited),
    leaveOut: (epoch, scans) => Object.assign(own, { epoch, scans }),
    render: () => registry.metrics(),
  };
}

function addPool(gauge: AddGauge, pool: MetricsParts['pool']): void {
  gauge('sluice_scan_threads', 'Scan threads.', () => pool.threads);
  gauge(
    'sluice_scan_threads_standing_in',
    'Threads at scans beside those, for scans that would wait behind long ones.',
    () => pool.standIns,
  );
  gauge('sluice_scans_running', 'Scans that a thread is at.', () => pool.running);
  gauge('sluice_scans_waiting', 'Scans that wait for a thread.', () => pool.waiting);
  gauge('sluice_accounts_waiting', 'Accounts that they are of.', () => pool.accountsWaiting);
  gauge('sluice_scan_threads_late', 'Threads not back long after the deadline.', () => pool.late);
  gauge('sluice_scan_threads_hung', 'Those of them that do not come back from a scan.', () => pool.hung);
}

function addCache(gauge: AddGauge, cache: MetricsParts['cache']): void {
  gauge(
    'sluice_verdict_cache_entries',
    'Verdicts that are remembered: of a content, and once more for each account that had it scanned.',
    () => cache.entries,
  );
  gauge('sluice_verdict_cache_bytes', 'About the memory that they take.', () => cache.sizeBytes);
}

function addJournal(gauge: AddGauge, state: () => HistoryState): void {
  gauge('sluice_journal_rows', 'Rows of the history that wait for the database.', () => state().rows);
  gauge('sluice_journal_bytes', 'Bytes of them.', () => state().bytes);
  gauge('sluice_journal_oldest_seconds', 'Age of the oldest of them, at most.', () => state().oldestAgeMs / 1000);
  gauge(
    'sluice_journal_damaged_files',
    'Files of the journal that could not be read as a whole, put aside in journal/damaged.',
    () => state().damagedFiles,
  );
  gauge('sluice_journal_refuses', '1: scans are refused because they could not be recorded.', () =>
    state().problem === null ? 0 : 1,
  );
}

function addMemory(registry: Registry, gauge: AddGauge, kind: 'upload' | 'download', memory: Lending): void {
  const prefix = `sluice_${kind}_memory`;
  const most = `${kind.toUpperCase()}_MEMORY_MB at most.`;
  gauge(
    `${prefix}_bytes`,
    `Memory that ${kind}s have now, with what waits for a buffer; ${most}`,
    () => memory.lentBytes,
  );
  gauge(`${prefix}_waiting_bytes`, 'Of it, what has arrived and waits for a buffer.', () => memory.waitingBytes);
  gauge(`${prefix}_accounts`, `Accounts with ${kind}s on their way or in a scan.`, () => memory.accounts);
  gauge(`${prefix}_largest_account_bytes`, 'What one account has of it, at most.', () => memory.largestAccountBytes);
  gauge(
    `sluice_${kind}s_waiting`,
    `${kind === 'upload' ? 'Uploads' : 'Downloads'} that wait for memory.`,
    () => memory.waiting,
  );
  new Counter({
    name: `${prefix}_ended_total`,
    help: `Ended ${kind}s: another account waited for the memory that they held.`,
    registers: [registry],
    collect() {
      this.reset();
      this.inc(memory.ended);
    },
  });
}

/** `own`: scans that nobody asked for. */
function addStanding(gauge: AddGauge, { signatures, standing }: Pick<MetricsParts, 'signatures' | 'standing'>): void {
  gauge('sluice_signatures_starter', '1: only the few signatures serve that ship with Sluice.', () => {
    const state = signatures();
    return state.kind === 'ready' && standing(state.engine) === 'starter' ? 1 : 0;
  });
}

function addSignatures(
  registry: Registry,
  gauge: AddGauge,
  state: () => SignatureState,
  own: { readonly epoch: number; readonly scans: number },
): void {
  const serving = () => {
    const now = state();
    return now.kind === 'ready' ? now : null;
  };
  const engine = () => serving()?.engine ?? null;
  const gates = () => engine()?.gates?.statistics() ?? null;
  gauge('sluice_signatures', 'Signatures that serve.', () => engine()?.signatureCount ?? 0);
  gauge(
    'sluice_gates_signatures',
    'Logical signatures behind gates; 0: there are no gates.',
    () => engine()?.gates?.gated ?? 0,
  );
  new Gauge({
    name: 'sluice_gates_kept',
    help: 'Logical signatures that every content is asked about, by why they have no gate.',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(engine()?.gates?.kept ?? {})) this.set({ reason }, count ?? 0);
    },
  });
  gauge('sluice_gates_given_up', 'Gates that hit clean content before, and are not used.', () => {
    return engine()?.gates?.givenUp ?? 0;
  });
  gauge('sluice_gates_scans', 'Scans since the load.', () => {
    const scans = gates()?.scans ?? 0;
    return engine()?.epoch === own.epoch ? scans - own.scans : scans;
  });
  gauge('sluice_gates_second_looks', 'Of these, scans in which a gate hit.', () => gates()?.secondLooks ?? 0);
  gauge('sluice_gates_lookers', 'Engines that have looked again.', () => gates()?.lookers ?? 0);
  gauge(
    'sluice_gates_in_vain',
    'Second looks in which no signature behind the gates matched.',
    () => gates()?.inVain ?? 0,
  );
  gauge('sluice_gates_noisy', 'Gates that hit in vain since the load.', () => gates()?.noisy.length ?? 0);
  gauge('sluice_signatures_epoch', 'Counts the loads of this process.', () => engine()?.epoch ?? 0);
  gauge('sluice_signatures_reload_failed', '1: newer signatures could not be loaded, the old ones go on.', () =>
    serving()?.reload.kind === 'failed' ? 1 : 0,
  );
  gauge('sluice_engine_stands_in', '1: YARA rules serve though ClamAV was wanted.', () =>
    (engine()?.standsInFor ?? null) === null ? 0 : 1,
  );
  const absentWithout = (name: string, help: string, value: () => number | null): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const now = value();
        if (now === null) this.remove();
        else this.set(now);
      },
    });
  };
  absentWithout(
    'sluice_signatures_built_seconds',
    'When the signatures were built, in epoch seconds: the newest official database, or else the newest file that says it; absent where none does.',
    () => engine()?.signaturesBuiltAt ?? null,
  );
  absentWithout(
    'sluice_signatures_daily_age_seconds',
    'Age of the newest official daily database; absent without one.',
    () => {
      const builtAt = engine()?.dailyBuiltAt ?? null;
      return builtAt === null ? null : Math.max(0, Date.now() / 1000 - builtAt);
    },
  );
  new Gauge({
    name: 'sluice_engine_info',
    help: 'Always 1; the label says what serves, as in X-Scan-Engine.',
    labelNames: ['engine'] as const,
    registers: [registry],
    collect() {
      this.reset();
      const now = engine();
      if (now !== null) this.set({ engine: now.description }, 1);
    },
  });
}

export interface MetricsServerOptions {
  readonly metrics: Metrics;
  /** The first of the ports that may be taken; 0: a free port is chosen. */
  readonly port: number;
  /** How many ports in a row: one for each process of the service. */
  readonly ports: number;
  readonly onListening: (port: number) => void;
  /** Called once when none is free; it is tried again until one is. */
  readonly onTaken: (error: Error) => void;
}

const LOOPBACK = '127.0.0.1';
/** A process that is replaced leaves its port within this and a moment. */
const RETRY_MS = 1_000;

/** Begins to listen without a wait for it: scans are served also while the port is taken. Returns what ends it. */
export function startMetricsServer(options: MetricsServerOptions): () => Promise<void> {
  const { metrics, port, ports, onListening, onTaken } = options;
  const server = createServer((request, response) => {
    answer(request, response, metrics).catch(() => response.destroy());
  });
  let retry: NodeJS.Timeout | null = null;
  let tried = 0;
  let isTold = false;
  const listen = (): void => void server.listen(port === 0 ? 0 : port + (tried % ports), LOOPBACK);
  server.on('listening', () => {
    const address = server.address();
    if (address !== null && typeof address === 'object') onListening(address.port);
  });
  server.on('error', (error) => {
    tried += 1;
    if (tried % ports !== 0) return listen();
    if (!isTold) onTaken(error);
    isTold = true;
    retry = setTimeout(listen, RETRY_MS);
    retry.unref();
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
