// The service: its parts started in order, and stopped in the reverse order.
import { type BootstrapAccount, bootstrap } from './account/bootstrap.js';
import type { Config } from './config.js';
import { loadSignatures, type Signatures } from './engine/signatures.js';
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
    const postgres = await startStore(config, log, stops);
    const account = await bootstrap(postgres.sql, config.bootstrap, { isEmbedded: config.databaseUrl === null });
    const history = await startHistory({
      sql: postgres.sql,
      dataDirectory: config.dataDirectory,
      journalLimitBytes: config.historyJournalBytes,
      retentionDays: config.historyRetentionDays,
      alongside: null,
      log,
    });
    stops.push(() => history.stop());
    const signatures = startSignatures(config, log, stops);
    const admission = await startAdmission(config, log, postgres, stops);
    const port = await startHttp(config, log, { postgres, admission, history, signatures }, stops);
    return {
      port,
      account,
      async ready() {
        await signatures.ready();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startSignatures(config: Config, log: Log, stops: (() => Promise<void>)[]): Signatures {
  const signatures = loadSignatures({
    directories: config.signatureDirectories,
    scanTimeoutMs: config.scanTimeoutMs,
    onWarning: (warning) => log.warn({ warning }, 'signatures'),
  });
  stops.push(() => signatures.stop());
  signatures.ready().then(
    (info) => log.info(info, 'signatures loaded'),
    (error: unknown) => log.error({ reason: String(error) }, 'the signatures could not be loaded: scans are refused'),
  );
  return signatures;
}
