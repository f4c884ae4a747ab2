// The server process: its parts started in order, wired together, and stopped in the reverse order.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { createAccess } from './account/access.js';
import { type BootstrapAccount, bootstrap } from './account/bootstrap.js';
import { createKeyLoader } from './account/keys.js';
import type { Config } from './config.js';
import { type ScanPool, startPool } from './engine/pool.js';
import { loadSignatures, type SignatureEvent, type Signatures } from './engine/signatures.js';
import type { Exchange } from './http/exchange.js';
import { createRouter } from './http/router.js';
import { startServer } from './http/server.js';
import type { Log } from './log.js';
import { packageJsonPath } from './paths.js';
import { createRoutes } from './routes.js';
import { createGuard } from './scan/guard.js';
import { createUploadMemory } from './scan/memory.js';
import { createScanHandler } from './scan/route.js';
import { createVerdictCache } from './scan/verdict-cache.js';
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
  /** Reads the signatures again; resolves when that has been done, well or not. */
  reloadSignatures(): Promise<void>;
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
    const pool = startPool({
      threads: config.scanThreads,
      queueLimit: config.scanQueue,
      scanTimeoutMs: config.scanTimeoutMs,
      encryptedArchives: config.encryptedArchives,
    });
    const signatures = startSignatures(config, log, pool);
    stops.push(() => signatures.stop());
    stops.push(() => pool.stop());
    const port = await startHttp(config, log, { postgres, signatures, pool }, stops);
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

function startSignatures(config: Config, log: Log, pool: ScanPool): Signatures {
  const copyDirectory = join(config.dataDirectory, 'serving-signatures');
  return loadSignatures({
    directories: config.signatureDirectories,
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
    const { files: _files, warnings: _warnings, ...facts } = event.info;
    log.info(facts, 'signatures loaded');
  } else {
    const after = event.serving ? 'those from before go on' : 'scans are refused';
    log.error({ reason: event.message }, `the signatures could not be loaded: ${after}`);
  }
}

interface HttpParts {
  readonly postgres: Postgres;
  readonly signatures: Signatures;
  readonly pool: ScanPool;
}

async function startHttp(
  config: Config,
  log: Log,
  { postgres, signatures, pool }: HttpParts,
  stops: (() => Promise<void>)[],
): Promise<number> {
  const admission = createMemoryAdmission(createKeyLoader(postgres.sql, config.plans));
  const scan = createScanHandler({
    access: createAccess(admission, Date.now),
    pool,
    signatures,
    cache: createVerdictCache({ limitBytes: config.verdictCacheBytes }),
    memory: createUploadMemory({ budgetBytes: config.uploadMemoryBytes, waitMs: config.uploadWaitMs }),
    uploadTimeoutMs: config.uploadTimeoutMs,
    guard: createGuard({ allowNetworks: [] }),
    now: Date.now,
    onScan: (event) => log.info(event, 'scan'),
  });
  const routes = createRoutes({
    scan,
    signatures: () => signatures.state(),
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
