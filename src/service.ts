// The service: its parts started in order, and stopped in the reverse order.
import { join } from 'node:path';
import { type BootstrapAccount, bootstrap } from './account/bootstrap.js';
import type { Config } from './config.js';
import { type ScanPool, startPool } from './engine/pool.js';
import { type FoundSandbox, findSandbox } from './engine/sandbox.js';
import { loadSignatures, type SignatureEvent, type Signatures } from './engine/signatures.js';
import { startHistory } from './history/history.js';
import type { Log } from './log.js';
import { startHttp } from './service-http.js';
import { startAdmission, startStore } from './service-stores.js';

export interface Service {
  readonly port: number;
  /** What the first start on an empty store made: to be shown once, never logged. */
  readonly account: BootstrapAccount | null;
  /** Resolves when scans are served; rejects when the signatures can't be loaded, while the rest goes on answering. */
  ready(): Promise<void>;
  /** Reads the signatures again; resolves when that has been done, well or not. */
  reloadSignatures(): Promise<void>;
  /** Stops listening, answers what runs, closes the stores. */
  stop(): Promise<void>;
}

/** Starts everything; rejects, with what was started stopped again, when a part can't start. Signatures load behind it. */
export async function startService(config: Config, log: Log): Promise<Service> {
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next();
  };
  try {
    const sandbox = startSandbox(config, log);
    const postgres = await startStore(config, log, stops);
    const account = await bootstrap(postgres.sql, config.bootstrap, { isEmbedded: config.databaseUrl === null });
    const history = await startHistory({
      sql: postgres.sql,
      dataDirectory: config.dataDirectory,
      journalLimitBytes: config.historyJournalBytes,
      retentionDays: config.historyRetentionDays,
      log,
    });
    stops.push(() => history.stop());
    const pool = startPool({
      threads: config.scanThreads,
      queueLimit: config.scanQueue,
      scanTimeoutMs: config.scanTimeoutMs,
      encryptedArchives: config.encryptedArchives,
      sandbox: sandbox.mode,
    });
    const signatures = startSignatures(config, log, pool);
    stops.push(() => signatures.stop());
    stops.push(() => pool.stop());
    const admission = await startAdmission(config, log, postgres, stops);
    const port = await startHttp(
      config,
      log,
      { postgres, admission, history, signatures, pool, sandbox: sandbox.confinement },
      stops,
    );
    return {
      port,
      account,
      async ready() {
        await signatures.ready();
      },
      reloadSignatures: () => signatures.reload(),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startSandbox(config: Config, log: Log): FoundSandbox {
  const sandbox = findSandbox(config.sandbox);
  if (sandbox.warning !== null) log.warn({ warning: sandbox.warning }, 'sandbox');
  return sandbox;
}

function startSignatures(config: Config, log: Log, pool: ScanPool): Signatures {
  const copyDirectory = join(config.dataDirectory, 'serving-signatures');
  return loadSignatures({
    directories: config.signatureDirectories,
    engine: config.engine,
    scanTimeoutMs: config.scanTimeoutMs,
    limits: config.scanLimits,
    mode: config.reload === 'frugal' ? { kind: 'frugal', copyDirectory, pause: pool.pause } : { kind: 'concurrent' },
    pollMs: config.signaturesPollMs,
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
