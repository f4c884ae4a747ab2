// Configuration: environment variables, read and checked here and nowhere else; every problem is listed at once.
import { join, resolve } from 'node:path';
import { availableCores } from './cores.js';
import {
  billingSettings,
  checkPlans,
  checkProcesses,
  type Given,
  issuerSettings,
  memoryLimitBytes,
  processChoice,
  signatureFolders,
} from './groups.js';
import { plansOf } from './plans.js';
import { type Config, ConfigError } from './types.js';
import { variables } from './variables.js';

const MIB = 1024 * 1024;

/** Reads the configuration, or throws a ConfigError that names every wrong variable (never its value: it may be a secret). */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const given = readVariables(env);
  const { v, problems } = given;
  checkPlans(given);
  checkProcesses(given);
  const billing = billingSettings(given);
  const trustedIssuer = issuerSettings(given);
  if (problems.length > 0) throw new ConfigError(problems);
  const dataDirectory = resolve(v.DATA_DIR);
  const downloads = join(dataDirectory, 'signatures');
  const cores = availableCores();
  const { processes, because } = processChoice(given, cores);
  const scanThreads = v.SCAN_THREADS ?? Math.max(1, Math.floor(cores / processes));
  return {
    port: v.PORT,
    host: v.HOST,
    baseUrl: v.BASE_URL ?? null,
    dataDirectory,
    databaseUrl: v.DATABASE_URL ?? null,
    databaseUser: v.DATABASE_USER ?? null,
    redisUrl: v.REDIS_URL ?? null,
    engine: v.ENGINE,
    hasGates: v.ENGINE_GATES === 'on',
    signatureFolders: signatureFolders(v.SIGNATURES_DIR, downloads),
    signaturesMirror: v.SIGNATURES_MIRROR ?? null,
    signatureUrls: v.SIGNATURES_URLS,
    signatureDownloads: downloads,
    signaturesPollMs: v.SIGNATURES_POLL_SECONDS * 1000,
    verdictScope: v.VERDICT_CACHE === 'account' ? 'account' : 'shared',
    verdictCacheBytes: v.VERDICT_CACHE === 'off' ? 0 : v.VERDICT_CACHE_MB * MIB,
    adminPort: v.ADMIN_PORT,
    connections: v.CONNECTIONS ?? null,
    connectionsPerAddress: v.CONNECTIONS_PER_ADDRESS ?? null,
    processes,
    processesBecause: because,
    memoryLimitBytes: memoryLimitBytes(v.MEMORY_LIMIT_MB, processes),
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
    memoryReserveShare: v.MEMORY_RESERVE_PERCENT / 100,
    uploadMemoryBytes: v.UPLOAD_MEMORY_MB * MIB,
    urlAllowNetworks: v.URL_ALLOW_NETWORKS ?? [],
    urlPorts: v.URL_PORTS ?? null,
    urlDnsServers: v.URL_DNS_SERVERS ?? null,
    downloadTimeoutMs: v.DOWNLOAD_TIMEOUT_MS,
    downloadMemoryBytes: v.DOWNLOAD_MEMORY_MB * MIB,
    downloadsPerUser: v.DOWNLOADS_PER_USER,
    downloads: v.DOWNLOADS,
    coreDumps: v.CORE_DUMPS,
    httpServer: v.HTTP_SERVER,
    sandbox: v.SANDBOX,
    encryptedArchives: v.ENCRYPTED_ARCHIVES,
    plans: plansOf(v.PLANS, billing === null ? null : (v.STRIPE_PRICES ?? null)),
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

/** Each variable by itself. Those that are wrong are left out then, so that what several make together can be looked at as well. */
function readVariables(env: Readonly<Record<string, string | undefined>>): Given {
  // An empty variable is an unset one: compose files and unit files leave them behind.
  const set = new Map(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const issues = variables.safeParse(Object.fromEntries(set)).error?.issues ?? [];
  const wrong = new Set(issues.map(({ path }) => path.join('.')));
  return {
    v: variables.parse(Object.fromEntries([...set].filter(([name]) => !wrong.has(name)))),
    isSet: (name) => set.has(name),
    isWrong: (name) => wrong.has(name),
    problems: [...new Set(issues.map(({ path, message }) => `${path.join('.')} ${message}`))],
  };
}
