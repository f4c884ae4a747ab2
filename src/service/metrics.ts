// What the service counts and measures, in the text format of Prometheus: scans as they end, everything else when it is asked for.
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Engine, SignatureState } from '../engine/engine.js';
import type { Standing } from '../engine/standing.js';
import type { ScanPool } from '../engine/threads/pool.js';
import type { UnavailableReason } from '../errors.js';
import type { HistoryState } from '../history/history.js';
import type { UploadMemory } from '../scan/memory/memory.js';
import type { AcceptedState } from '../scan/pending/accepted-scans.js';
import type { EndedScan } from '../scan/scan.js';
import type { VerdictCache } from '../scan/verdicts/cache.js';
import type { OutboxLook, OutboxState } from '../webhooks/deliveries.js';
import type { Outbox } from '../webhooks/sender.js';
import type { LoadCounts } from './engine.js';
import { RequestMetrics, ScanMetrics } from './scan-metrics.js';

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
  /** Null: the database answers. */
  readonly storeProblem: () => Promise<string | null>;
  readonly loads: LoadCounts;
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
  /** A scan was refused before its admission, since too many wait. */
  refused(reason: UnavailableReason): void;
  /** Of HTTP. Status null: the client went away before its answer was out. */
  answered(route: string, status: number | null): void;
  /** Waits for a thread count from now on: those before were of scans that nobody asked for. */
  countTurns(): void;
  /** Scans of this engine that nobody asked for. */
  leaveOut(epoch: number, scans: number): void;
  /** What is not there yet when the first scans are counted. */
  follow(parts: FollowedParts): void;
  render(): Promise<string>;
}

export interface FollowedParts {
  readonly accepted: () => AcceptedState;
  readonly outbox: OutboxLook;
  readonly attempts: Outbox['counts'];
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
  const requests = new RequestMetrics(registry);
  const own = { epoch: 0, scans: 0 };
  addPool(gauge, parts.pool);
  addMemory(registry, gauge, 'upload', parts.memories.uploads);
  addMemory(registry, gauge, 'download', parts.memories.downloads);
  addCache(gauge, parts.cache);
  addJournal(gauge, parts.history);
  gauge('sluice_admission_degraded', '1: Redis is away, and keys and quota are served from Postgres.', () =>
    parts.admissionProblem() === null ? 0 : 1,
  );
  addStore(registry, parts.storeProblem);
  addLoads(registry, parts.loads);
  addSignatures(registry, gauge, parts.signatures, own);
  addStanding(gauge, parts);
  return {
    contentType: registry.contentType,
    ended: scans.ended,
    refused: (reason) => scans.refused(reason),
    answered: requests.answered,
    countTurns: () => parts.pool.onTurn(scans.waited),
    leaveOut: (epoch, scans) => Object.assign(own, { epoch, scans }),
    follow(followed) {
      addAccepted(gauge, followed.accepted);
      addOutbox(registry, followed);
    },
    render: () => registry.metrics(),
  };
}

/** Asked when somebody asks: as /readyz does. */
function addStore(registry: Registry, problem: MetricsParts['storeProblem']): void {
  new Gauge({
    name: 'sluice_store_up',
    help: '1: the database has just answered; 0: it has not.',
    registers: [registry],
    async collect() {
      this.set((await problem()) === null ? 1 : 0);
    },
  });
}

function addAccepted(gauge: AddGauge, state: FollowedParts['accepted']): void {
  gauge(
    'sluice_accepted_scans',
    'Scans that this process has accepted with 202, and whose verdict is not in the database yet.',
    () => state().waiting,
  );
  gauge(
    'sluice_accepted_bytes',
    'Room on the disk of the contents of accepted scans; ASYNC_STORE_MB at most.',
    () => state().bytes,
  );
  gauge('sluice_accepted_oldest_seconds', 'Age of the oldest of the accepted scans; 0: there is none.', () => {
    return state().oldestAgeMs / 1000;
  });
}

/** Of all nodes, in the database: without its answer they are absent. */
function addOutbox(registry: Registry, { outbox, attempts }: FollowedParts): void {
  const look = (name: string, help: string, read: (state: OutboxState) => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const state = await outbox();
        if (state === null) this.remove();
        else this.set(read(state));
      },
    });
  };
  look(
    'sluice_webhook_deliveries_waiting',
    'Deliveries of webhooks that wait, of all nodes, those for receivers that fail included; absent while the database does not answer.',
    ({ waiting }) => waiting,
  );
  look(
    'sluice_webhook_overdue_seconds',
    'How long the oldest delivery is due whose receiver takes what it is sent; absent while the database does not answer.',
    ({ overdueMs }) => overdueMs / 1000,
  );
  new Counter({
    name: 'sluice_webhook_attempts_total',
    help: 'Attempts of this process to deliver, by outcome: delivered, failed (there will be another one), or given_up.',
    labelNames: ['outcome'] as const,
    registers: [registry],
    collect() {
      this.reset();
      this.inc({ outcome: 'delivered' }, attempts.delivered);
      this.inc({ outcome: 'failed' }, attempts.failed);
      this.inc({ outcome: 'given_up' }, attempts.givenUp);
    },
  });
}

function addLoads(registry: Registry, loads: LoadCounts): void {
  new Counter({
    name: 'sluice_signature_loads_total',
    help: 'Loads of signatures by this process, the first one included, by what came of them: loaded, or failed.',
    labelNames: ['outcome'] as const,
    registers: [registry],
    collect() {
      this.reset();
      this.inc({ outcome: 'loaded' }, loads.loaded);
      this.inc({ outcome: 'failed' }, loads.failed);
    },
  });
}

function addPool(gauge: AddGauge, pool: MetricsParts['pool']): void {
  gauge('sluice_scan_threads', 'Scan threads of the set, which is there always.', () => pool.threads);
  gauge(
    'sluice_scan_threads_standing_in',
    'Scan threads at scans beside the set: at content over 1 MB, and at scans that would wait behind long ones.',
    () => pool.standIns,
  );
  gauge('sluice_scans_running', 'Scans that a thread is at.', () => pool.running);
  gauge('sluice_scans_waiting', 'Scans that wait for a thread.', () => pool.waiting);
  gauge('sluice_accounts_waiting', 'Accounts with scans that wait for a thread.', () => pool.accountsWaiting);
  gauge(
    'sluice_scan_threads_late',
    'Scan threads that are not back from a scan long after its deadline.',
    () => pool.late,
  );
  gauge(
    'sluice_scan_threads_hung',
    'Scan threads that do not come back from a scan and were given up.',
    () => pool.hung,
  );
}

function addCache(gauge: AddGauge, cache: MetricsParts['cache']): void {
  gauge(
    'sluice_verdict_cache_entries',
    'Verdicts that are remembered: of a content, and once more for each account that had it scanned.',
    () => cache.entries,
  );
  gauge('sluice_verdict_cache_bytes', 'Memory of the verdicts that are remembered, about.', () => cache.sizeBytes);
}

function addJournal(gauge: AddGauge, state: () => HistoryState): void {
  gauge('sluice_journal_rows', 'Rows of the history that wait for the database.', () => state().rows);
  gauge('sluice_journal_bytes', 'Bytes of the journal whose rows wait for the database.', () => state().bytes);
  gauge(
    'sluice_journal_oldest_seconds',
    'Age of the oldest row of the history that waits for the database, at most.',
    () => state().oldestAgeMs / 1000,
  );
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
  gauge(
    `${prefix}_waiting_bytes`,
    `Bytes of ${kind}s that have arrived and wait for a buffer.`,
    () => memory.waitingBytes,
  );
  gauge(`${prefix}_accounts`, `Accounts with ${kind}s on their way or in a scan.`, () => memory.accounts);
  gauge(
    `${prefix}_largest_account_bytes`,
    `Memory that the account with most of it has for ${kind}s.`,
    () => memory.largestAccountBytes,
  );
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
  gauge(
    'sluice_signatures',
    'Signatures of the engine that serves; 0: none does.',
    () => engine()?.signatureCount ?? 0,
  );
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
  gauge('sluice_gates_scans', 'Scans by the engine that serves, since it was loaded with gates.', () => {
    const scans = gates()?.scans ?? 0;
    return engine()?.epoch === own.epoch ? scans - own.scans : scans;
  });
  gauge(
    'sluice_gates_second_looks',
    'Scans by the engine that serves in which a gate hit, so that other engines looked again.',
    () => gates()?.secondLooks ?? 0,
  );
  gauge(
    'sluice_gates_lookers',
    'Engines that have looked again, over all second looks since the load.',
    () => gates()?.lookers ?? 0,
  );
  gauge(
    'sluice_gates_in_vain',
    'Second looks since the load in which no signature behind the gates matched.',
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
