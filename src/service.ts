// The server process: its parts started in order, wired together, and stopped in the reverse order.
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { createAccess } from './account/access.js';
import { type BootstrapAccount, bootstrap } from './account/bootstrap.js';
import { createKeyLoader } from './account/keys.js';
import type { Config } from './config.js';
import { startPool } from './engine/pool.js';
import { loadSignatures, type Signatures } from './engine/signatures.js';
import { type History, startHistory } from './history/history.js';
import type { Exchange } from './http/exchange.js';
import { createRouter } from './http/router.js';
import { startServer } from './http/server.js';
import type { Log } from './log.js';
import { packageJsonPath } from './paths.js';
import { createRoutes } from './routes.js';
import { createGuard } from './scan/guard.js';
import { createUploadMemory } from './scan/memory.js';
import { createScanHandler } from './scan/route.js';
import { startEmbedded } from './store/embedded.js';
import { createMemoryAdmission } from './store/memory.js';
import { openPostgres, type Postgres } from './store/postgres.js';
import { codeOf } from './store/store-error.js';

export interface Service {
  readonly port: number;
  /** What the first start on an empty store made: to be shown once, never logged. */
  readonly account: BootstrapAccount | null;
  /** Resolves when scans are served; rejects when the signatures can't be loaded, while the rest goes on answering. */
  ready(): Promise<void>;
  /** Stops listening, answers what runs, closes the stores. */
  stop(): Promise<void>;
}

/** Requests in flight get so long at a stop. */
const STOP_GRACE_MS = 30_000;

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
    const port = await startHttp(config, log, { postgres, history, signatures }, stops);
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

async function startStore(config: Config, log: Log, stops: (() => Promise<void>)[]): Promise<Postgres> {
  if (config.databaseUrl !== null) {
    const postgres = await openPostgres({ kind: 'url', url: config.databaseUrl });
    stops.push(() => postgres.close());
    return postgres;
  }
  log.info({ dataDirectory: config.dataDirectory }, 'starting the embedded database');
  const { socketDirectory, stop } = await startEmbedded(config.dataDirectory);
  stops.push(stop);
  const postgres = await openPostgres({ kind: 'embedded', socketDirectory });
  stops.push(() => postgres.close());
  return postgres;
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

interface HttpParts {
  readonly postgres: Postgres;
  readonly history: History;
  readonly signatures: Signatures;
}

async function startHttp(
  config: Config,
  log: Log,
  { postgres, history, signatures }: HttpParts,
  stops: (() => Promise<void>)[],
): Promise<number> {
  const pool = startPool({
    threads: config.scanThreads,
    queueLimit: config.scanQueue,
    scanTimeoutMs: config.scanTimeoutMs,
    encryptedArchives: config.encryptedArchives,
  });
  stops.push(() => pool.stop());
  const admission = createMemoryAdmission(createKeyLoader(postgres.sql, config.plans));
  const scan = createScanHandler({
    access: createAccess(admission, Date.now),
    pool,
    signatures,
    memory: createUploadMemory({ budgetBytes: config.uploadMemoryBytes, waitMs: config.uploadWaitMs }),
    uploadTimeoutMs: config.uploadTimeoutMs,
    guard: createGuard({ allowNetworks: [] }),
    now: Date.now,
    history,
    appEnv: config.appEnv,
    onScan: (event) => log.info(event, 'scan'),
  });
  const routes = createRoutes({
    scan,
    signatures: () => signatures.state(),
    history: () => history.state(),
    storeProblem: () => problemOf(postgres),
    version: readVersion(),
  });
  const server = await startServer({
    host: config.host,
    port: config.port,
    handle: createRouter(routes, (exchange, error) =>
      log.error({ ...about(exchange), err: error }, 'unforeseen error'),
    ),
    onEnd: (exchange, status) => log.debug({ ...about(exchange), status }, 'request'),
  });
  stops.push(() => server.stop(STOP_GRACE_MS));
  log.info({ host: config.host, port: server.port }, 'listening');
  return server.port;
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

function about({ requestId, method, path }: Exchange): Record<string, string> {
  return { requestId, method, path: path.slice(0, LOGGED_PATH) };
}

function readVersion(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(packageJsonPath, 'utf8'))).version;
}
