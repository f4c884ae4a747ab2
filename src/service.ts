// The service: its parts started in order, and stopped in the reverse order.
import { join } from 'node:path';
import { type BootstrapAccount, bootstrap } from './account/bootstrap.js';
import type { Config } from './config.js';
import { openInFlight } from './engine/in-flight.js';
import { startMemoryGuard } from './engine/memory-guard.js';
import { type ScanPool, startPool } from './engine/pool.js';
import { type FoundSandbox, findSandbox } from './engine/sandbox.js';
import { loadSignatures, type SignatureEvent, type Signatures } from './engine/signatures.js';
import type { SandboxMode } from './engine/task.js';
import { startHistory } from './history/history.js';
import type { Log } from './log.js';
import { createHttp } from './service-http.js';
import { startAdmission, startStore } from './service-stores.js';

export interface Service {
  /** What the first start on an empty store made: to be shown once, never logged. */
  readonly account: BootstrapAccount | null;
  /** Threads that don't come back from a scan: they end with the process alone. */
  readonly hungThreads: number;
  /** Takes requests from now on; resolves with the port, rejects when the address can't be had. */
  listen(): Promise<number>;
  /** Resolves when scans are served; rejects when the signatures can't be loaded, while the rest goes on answering. */
  ready(): Promise<void>;
  /** Reads the signatures again; resolves when that has been done, well or not. */
  reloadSignatures(): Promise<void>;
  /** Contents that are not scanned from now on, as SHA-256: they have crashed the engine. */
  refuse(digests: readonly string[]): void;
  /** Takes no more connections and hands the counts over; resolves when another process may begin. */
  handOver(): Promise<void>;
  /** The process that was here before is gone. */
  alone(): void;
  /** Lets the connections that are left end, for a while. */
  drain(): Promise<void>;
  /** Stops listening, answers what runs, closes the stores. */
  stop(): Promise<void>;
}

/** What a process has from its supervisor. */
export interface Surroundings {
  /** A listening socket to accept from, beside others; null: one of its own. */
  readonly listener: number | null;
  /** Of an embedded database that others use as well; null: its own. */
  readonly socketDirectory: string | null;
  /** Another process serves still. */
  readonly takesOver: boolean;
  readonly inFlightPath: string | null;
  readonly onHung: (sha256: string | null) => void;
  readonly onOutOfMemory: (residentBytes: number) => void;
}

/** Starts everything but listening; rejects, with what was started stopped again, when a part can't start. Signatures load behind it. */
export async function startService(config: Config, log: Log, surroundings: Surroundings): Promise<Service> {
  const { takesOver, socketDirectory, listener } = surroundings;
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  try {
    const sandbox = startSandbox(config, log);
    const postgres = await startStore(config, log, socketDirectory, stops);
    const account = await bootstrap(postgres.sql, config.bootstrap, { isEmbedded: config.databaseUrl === null });
    const history = await startHistory({
      sql: postgres.sql,
      dataDirectory: config.dataDirectory,
      journalLimitBytes: config.historyJournalBytes,
      retentionDays: config.historyRetentionDays,
      log,
    });
    stops.push(() => history.stop());
    const pool = startGuardedPool(config, sandbox.mode, surroundings, stops);
    const signatures = startSignatures(config, log, pool);
    stops.push(() => signatures.stop());
    stops.push(() => pool.stop());
    const admission = await startAdmission(config, log, postgres, takesOver, stops);
    const refused = new Set<string>();
    const { store, redis } = admission;
    const parts = { postgres, admission: store, redis, history, signatures, pool, refused, listener };
    const http = await createHttp(config, log, { ...parts, sandbox: sandbox.confinement }, stops);
    return {
      account,
      get hungThreads() {
        return pool.hung;
      },
      listen: () => http.listen(),
      async ready() {
        await signatures.ready();
      },
      reloadSignatures: () => signatures.reload(),
      refuse(digests) {
        for (const digest of digests) refused.add(digest);
      },
      async handOver() {
        http.stopListening();
        await admission.handOver();
      },
      alone: () => admission.alone(),
      drain: () => http.drain(),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startGuardedPool(
  config: Config,
  sandbox: SandboxMode,
  { inFlightPath, onHung, onOutOfMemory }: Surroundings,
  stops: (() => Promise<void>)[],
): ScanPool {
  const inFlight = inFlightPath === null ? null : openInFlight(inFlightPath);
  const { memoryLimitBytes } = config;
  const memory =
    memoryLimitBytes === null ? null : startMemoryGuard({ limitBytes: memoryLimitBytes, onExceeded: onOutOfMemory });
  stops.push(async () => {
    memory?.stop();
    inFlight?.close();
  });
  return startPool({
    threads: config.scanThreads,
    queueLimit: config.scanQueue,
    scanTimeoutMs: config.scanTimeoutMs,
    encryptedArchives: config.encryptedArchives,
    sandbox,
    onHung,
    ...(inFlight === null ? {} : { onBegin: inFlight.enter }),
    ...(memory === null ? {} : { refusal: memory.refusal }),
  });
}

function startSandbox(config: Config, log: Log): FoundSandbox {
  const sandbox = findSandbox(config.sandbox);
  if (sandbox.warning !== null) log.warn({ warning: sandbox.warning }, 'sandbox');
  return sandbox;
}

function startSignatures(config: Config, log: Log, pool: ScanPool): Signatures {
  const copyDirectory = join(config.dataDirectory, 'serving-signatures');
  return loadSignatures({
    ...config.signatureFolders,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    mode: config.reload === 'frugal' ? { kind: 'frugal', copyDirectory, pause: pool.pause } : { kind: 'concurrent' },
    pollMs: config.signaturesPollMs,
    // Whose verdicts may be shared is asked only where they are.
    wantsIdentity: config.redisUrl !== null && config.verdictCacheBytes > 0,
    onEvent: (event) => logSignatures(log, event),
  });
}

function logSignatures(log: Log, event: SignatureEvent): void {
  if (event.kind === 'warning') {
    log.warn({ warning: event.message }, 'signatures');
  } else if (event.kind === 'loaded') {
    const { files: _files, warnings: _warnings, rules, ...facts } = event.info;
    log.info({ ...facts, ruleCount: rules?.ruleCount ?? 0 }, 'signatures loaded');
  } else {
    const after = event.serving ? 'those from before go on' : 'scans are refused';
    log.error({ reason: event.message }, `the signatures could not be loaded: ${after}`);
  }
}
