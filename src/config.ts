// Configuration: environment variables, read and checked here and nowhere else; every problem is listed at once.
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { billingSettings, issuerSettings, memoryLimitBytes, signatureFolders } from './config-groups.js';
import { type Config, ConfigError } from './config-types.js';
import { variables } from './config-variables.js';

const MIB = 1024 * 1024;

/** Reads the configuration, or throws a ConfigError that names every wrong variable (never its value: it may be a secret). */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  // An empty variable is an unset one: compose files and unit files leave them behind.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = variables.safeParse(given);
  if (!parsed.success) {
    throw new ConfigError(parsed.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`));
  }
  const v = parsed.data;
  const problems: string[] = [];
  if (!v.PLANS.has(v.BOOTSTRAP_PLAN)) {
    problems.push(`BOOTSTRAP_PLAN must be one of ${[...v.PLANS.keys()].join(', ')}`);
  }
  if (v.PROCESSES > 1) {
    for (const name of ['DATABASE_URL', 'REDIS_URL'] as const) {
      if (v[name] === undefined) problems.push(`${name} is needed when PROCESSES is above 1: they share their stores`);
    }
  }
  const billing = billingSettings(v, problems);
  const trustedIssuer = issuerSettings(v, problems);
  if (problems.length > 0) throw new ConfigError(problems);
  const dataDirectory = resolve(v.DATA_DIR);
  const downloads = join(dataDirectory, 'signatures');
  const scanThreads = v.SCAN_THREADS ?? Math.max(1, Math.floor(availableParallelism() / v.PROCESSES));
  return {
    port: v.PORT,
    host: v.HOST,
    baseUrl: v.BASE_URL ?? null,
    dataDirectory,
    databaseUrl: v.DATABASE_URL ?? null,
    redisUrl: v.REDIS_URL ?? null,
    engine: v.ENGINE,
    hasGates: v.ENGINE_GATES === 'on',
    signatureFolders: signatureFolders(v.SIGNATURES_DIR, downloads),
    signaturesMirror: v.SIGNATURES_MIRROR ?? null,
    signatureUrls: v.SIGNATURES_URLS,
    signatureDownloads: downloads,
    signaturesPollMs: v.SIGNATURES_POLL_SECONDS * 1000,
    reload: v.RELOAD,
    verdictCacheBytes: v.VERDICT_CACHE_MB * MIB,
    adminPort: v.ADMIN_PORT,
    processes: v.PROCESSES,
    memoryLimitBytes: memoryLimitBytes(v.MEMORY_LIMIT_MB, v.PROCESSES),
    scanThreads,
    scanQueue: v.SCAN_QUEUE,
    scanTimeoutMs: v.SCAN_TIMEOUT_MS,
    scanLimits: {
      maxScanSizeBytes: v.SCAN_MAX_SIZE_MB * MIB,
      maxFiles: v.SCAN_MAX_FILES,
      maxRecursion: v.SCAN_MAX_RECURSION,
      // Every thread, and every one that stands in for it, may be at a content that unpacks to all it may.
      maxTemporaryBytes: (v.SCAN_TEMP_MB ?? 2 * scanThreads * v.SCAN_MAX_SIZE_MB) * MIB,
    },
    uploadTimeoutMs: v.UPLOAD_TIMEOUT_MS,
    uploadWaitMs: v.UPLOAD_WAIT_MS,
    uploadMemoryBytes: v.UPLOAD_MEMORY_MB * MIB,
    urlAllowNetworks: v.URL_ALLOW_NETWORKS ?? [],
    urlPorts: v.URL_PORTS ?? null,
    urlDnsServers: v.URL_DNS_SERVERS ?? null,
    downloadTimeoutMs: v.DOWNLOAD_TIMEOUT_MS,
    downloadMemoryBytes: v.DOWNLOAD_MEMORY_MB * MIB,
    downloadsPerUser: v.DOWNLOADS_PER_USER,
    downloads: v.DOWNLOADS,
    sandbox: v.SANDBOX,
    encryptedArchives: v.ENCRYPTED_ARCHIVES,
    plans: v.PLANS,
    billing,
    registration: v.REGISTRATION,
    trustedProxies: v.TRUSTED_PROXIES,
    trustedIssuer,
    appEnv: v.APP_ENV,
    historyRetentionDays: v.HISTORY_RETENTION_DAYS,
    historyJournalBytes: v.HISTORY_JOURNAL_MB * MIB,
    logLevel: v.LOG_LEVEL,
    bootstrap: {
      email: v.BOOTSTRAP_EMAIL ?? null,
      password: v.BOOTSTRAP_PASSWORD ?? null,
      apiKey: v.BOOTSTRAP_API_KEY ?? null,
      plan: v.BOOTSTRAP_PLAN,
    },
  };
}
