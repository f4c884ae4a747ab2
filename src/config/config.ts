// The configuration: what the variables say by themselves, and what several of them, or the machine, make together. It is read here
// and nowhere else, and every problem is listed at once.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { CONTENT_LIMIT_BYTES } from '../limits.js';
import { ownSignaturesDirectory, packageJsonPath } from '../paths.js';
import { plansOf } from './plans.js';
import { MIB } from './values.js';
import { confinedEngine, memoryOfMachine, type Read, readVariables, type Setting, table } from './variables.js';

const CGROUPS = '/sys/fs/cgroup';

/** Newer versions of Node count so by themselves, Node 20 counts the cores of the machine. */
export const availableCores = (): number => coresWithin(availableParallelism(), processorQuota(readText));

/** Whole ones, since a thread for a part of one would wait for it; at least one. */
export function coresWithin(cores: number, quota: number | null): number {
  return quota === null ? cores : Math.max(1, Math.min(cores, Math.floor(quota)));
}

/**
 * The least that a control group of this process, or one above it, allows, in cores; null: none has a limit, or they are not of version 2.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD".
 */
export function processorQuota(read: (path: string) => string | null): number | null {
  const own = /^0::(\/.*)$/m.exec(read('/proc/self/cgroup') ?? '')?.[1];
  if (own === undefined) return null;
  const quotas: number[] = [];
  for (let path = own; ; path = dirname(path)) {
    const [, quota, period] = /^(\d+) (\d+)\s*$/.exec(read(join(CGROUPS, path, 'cpu.max')) ?? '') ?? [];
    if (quota !== undefined && period !== undefined) quotas.push(Number(quota) / Number(period));
    if (path === dirname(path)) break;
  }
  return quotas.length === 0 ? null : Math.min(...quotas);
}

/** Null: there is no such file, or it is not for us. */
function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

const GIB = 1024 ** 3;

/**
 * Scan threads that one serving thread feeds with files as they are, 268,791 signatures and gates that have learned. Contents of 1 KB keep
 * one or two busy, large ones more (docs/benchmarks.md, "How many scan threads can one serving thread feed?").
 */
export const THREADS_OF_A_PROCESS = 4;

/** 1.2 GiB of a production database, as much again while newer signatures load, and 0.6 for contents and for Node. */
export const BYTES_OF_A_PROCESS = 3 * GIB;

/** Of the machine's memory, or the container's, for all server processes together; the rest is for the stores and the kernel. */
const MEMORY_SHARE = 0.8;

/** Of the same, for what scans have unpacked. They may have twice that before the next look; with the share above something is left to the stores. */
const TEMPORARY_SHARE = 1 / 16;

/** In bytes. */
const memoryOfServers = (): number => memoryOfMachine() * MEMORY_SHARE;

/** Bytes that scans of one process may have unpacked: two for each thread may be at a content that unpacks to all it may, where there is memory for that. */
export function temporaryBytes(
  memoryBytes: number,
  { processes, scanThreads, maxScanSizeBytes }: { processes: number; scanThreads: number; maxScanSizeBytes: number },
): number {
  const share = Math.floor((memoryBytes * TEMPORARY_SHARE) / processes);
  return Math.max(maxScanSizeBytes, Math.min(2 * scanThreads * maxScanSizeBytes, share));
}

const PROCESSES_MAX = 64;

export interface Machine {
  readonly cores: number;
  /** For all server processes together. */
  readonly memoryBytes: number;
  /** Several processes count in it; without it each would give the whole quota. */
  readonly hasRedis: boolean;
  /** What one process may take; null: not known, as much as production needs. */
  readonly processBytes: number | null;
  /** Scan threads of one process; null: the cores are divided among the processes. */
  readonly scanThreads: number | null;
}

export interface ProcessChoice {
  readonly processes: number;
  readonly because: 'cores' | 'memory' | 'SCAN_THREADS' | 'REDIS_URL is not set';
}

/** PROCESSES=auto: as many processes as serving threads are needed for the cores, but no more than there is memory for. At least one. The rule is pure: what the machine has comes in. */
export function chooseProcesses(machine: Machine): ProcessChoice {
  const { cores, memoryBytes, hasRedis, processBytes, scanThreads } = machine;
  const wanted = Math.ceil(cores / THREADS_OF_A_PROCESS);
  if (wanted > 1 && !hasRedis) return { processes: 1, because: 'REDIS_URL is not set' };
  const byMemory = Math.floor(memoryBytes / (processBytes ?? BYTES_OF_A_PROCESS));
  // More threads than cores would only take turns.
  const byThreads = scanThreads === null ? wanted : Math.floor(cores / scanThreads);
  const processes = Math.max(1, Math.min(wanted, byMemory, byThreads, PROCESSES_MAX));
  if (processes >= Math.min(wanted, PROCESSES_MAX)) return { processes, because: 'cores' };
  return { processes, because: byMemory <= byThreads ? 'memory' : 'SCAN_THREADS' };
}

/** Where Debian's freshclam puts the official databases. */
const FRESHCLAM_DIRECTORY = '/var/lib/clamav';

export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n  ${problems.join('\n  ')}`,
    );
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** Every setting with its unit, nothing left to be looked up. */
export type Config = Readonly<ReturnType<typeof readConfig>>;
/** With STRIPE_SECRET_KEY. */
export type BillingSettings = NonNullable<Config['billing']>;
export type EngineChoice = Config['engine'];
export type SignatureFolders = Config['signatureFolders'];
export type Bootstrap = Config['bootstrap'];

/** Throws a ConfigError that names every wrong variable, and never its value: it may be a secret. */
export function readConfig(env: Readonly<Record<string, string | undefined>>) {
  const read = readVariables(env);
  for (const check of [checkPlans, checkProcesses, checkThreads, checkMail, checkPurposes, checkPorts]) check(read);
  const billing = billingSettings(read);
  const trustedIssuer = issuerSettings(read);
  const streamLimitBytes = streamLimit(read);
  const clamd = clamdSettings(read);
  const icap = icapSettings(read);
  const cores = availableCores();
  const { processes, because } = processChoice(read, cores);
  const async = asyncBounds(read, processes);
  if (read.problems.length > 0) throw new ConfigError(read.problems);
  const {
    stripeSecretKey,
    stripeWebhookSecret,
    stripePrices,
    stripeApiBase,
    jwtIssuer,
    jwtJwksUrl,
    jwtAudience,
    icapPort,
    icapAllowNetworks,
    icapAccount,
    icapIncomplete,
    icapBlockPage,
    streamMaxBytes,
    ...own
  } = read.settings;
  const { clamdSocket, clamdSocketMode, clamdSocketGroup, clamdPort, clamdAllowNetworks, ...rest } = own;
  const { clamdAccount, clamdPaths, bootstrapEmail, bootstrapPassword, bootstrapApiKey, bootstrapPlan, ...some } = rest;
  const { signaturesDir, ...settings } = some;
  const { maxScanSizeBytes, maxFiles, maxTemporaryBytes, asyncMaxBytes, asyncStoreBytes, ...others } = settings;
  const scanThreads = settings.scanThreads ?? Math.max(1, Math.floor(cores / processes));
  const signatureDownloads = join(settings.dataDirectory, 'signatures');
  return {
    ...others,
    engine: engineChoice(settings),
    signatureFolders: signatureFolders(signaturesDir, signatureDownloads),
    /** Where `signatures update` puts what it fetches when no folder of others is in use. */
    signatureDownloads,
    processes,
    /** What PROCESSES=auto has chosen that number for; null: it is set. */
    processesBecause: because,
    /** Resident bytes of one server process above which it scans no more and is restarted; null: no bound. */
    memoryLimitBytes: memoryLimitBytes(settings.memoryLimitBytes, processes),
    scanThreads,
    /** What one content may unpack to. More is not looked at, and the answer says so. */
    scanLimits: {
      maxScanSizeBytes,
      maxFiles,
      /** Of all scans together. */
      maxTemporaryBytes:
        maxTemporaryBytes ?? temporaryBytes(memoryOfMachine(), { processes, scanThreads, maxScanSizeBytes }),
    },
    plans: plansOf(settings.plans, billing === null ? null : stripePrices),
    /** Null: billing is off. */
    billing,
    /** Null: clamd's protocol is not spoken. */
    clamd,
    /** Null: ICAP is not spoken. */
    icap,
    /** Of a content that comes by neither HTTP nor a form. */
    streamLimitBytes,
    ...async,
    /** Whose access tokens are taken besides our own. */
    trustedIssuer,
    /** Of the first start on an empty store. */
    bootstrap: { email: bootstrapEmail, password: bootstrapPassword, apiKey: bootstrapApiKey, plan: bootstrapPlan },
  };
}

/** Zero: no bound. Null: an even share of what there is. */
function memoryLimitBytes(limitBytes: number | null, processes: number): number | null {
  if (limitBytes === 0) return null;
  return limitBytes ?? Math.floor(memoryOfServers() / processes);
}

/** What PROCESSES says, or with auto what this machine does. `because` null: it is set. */
function processChoice(
  { settings, isSet }: Read,
  cores: number,
): ReturnType<typeof chooseProcesses> | { processes: number; because: null } {
  const { processes, memoryLimitBytes: limitBytes, scanThreads } = settings;
  if (processes !== 'auto') return { processes, because: null };
  return chooseProcesses({
    cores,
    memoryBytes: memoryOfServers(),
    hasRedis: isSet('redisUrl'),
    processBytes: limitBytes === 0 ? null : limitBytes,
    scanThreads,
  });
}

function checkPlans({ settings, isSet, isWrong, problems }: Read): void {
  const { plans, bootstrapPlan } = settings;
  if (isWrong('plans') || isWrong('bootstrapPlan') || plans.has(bootstrapPlan)) return;
  const meant = isSet('bootstrapPlan') ? '' : `: while it is not set it is ${bootstrapPlan}`;
  problems.push(`BOOTSTRAP_PLAN must be one of ${[...plans.keys()].join(', ')}${meant}`);
}

/** Links in mails lead somewhere. */
function checkMail({ isSet, problems }: Read): void {
  if (isSet('smtpUrl') && !isSet('baseUrl')) problems.push('BASE_URL is needed when SMTP_URL is set');
}

/** Those on the left have an effect with one of those on the right alone. Those with a default are not among them: they may be set to it. */
const PURPOSES: readonly (readonly [readonly Setting[], readonly Setting[]])[] = [
  [['accessLogPath'], ['accessLog']],
  [['stripeWebhookSecret', 'stripePrices'], ['stripeSecretKey']],
  [
    ['clamdAccount', 'clamdPaths'],
    ['clamdSocket', 'clamdPort'],
  ],
  [['clamdSocketGroup'], ['clamdSocket']],
  [['clamdAllowNetworks'], ['clamdPort']],
  [['icapAccount', 'icapAllowNetworks', 'icapBlockPage'], ['icapPort']],
  [['streamMaxBytes'], ['clamdSocket', 'clamdPort', 'icapPort']],
];

/** A variable that has no effect is a mistake. */
function checkPurposes({ settings, isSet, isWrong, problems }: Read): void {
  for (const [names, purposes] of PURPOSES) {
    const isOff = (name: Setting): boolean => !isWrong(name) && (!isSet(name) || settings[name] === 'off');
    if (!purposes.every(isOff)) continue;
    const wanted = purposes.map((name) => table[name].name).join(' or ');
    for (const name of names.filter(isSet)) problems.push(`${table[name].name} is for ${wanted}, which is off`);
  }
}

/** Of this machine each is one program's. ADMIN_PORT is the first of as many as there are processes. */
function checkPorts({ settings, problems }: Read): void {
  const { adminPort, processes } = settings;
  const admin = Array.from({ length: processes === 'auto' ? 1 : processes }, (_, index) => adminPort + index);
  const nameOf = (port: number): string =>
    port === adminPort ? 'ADMIN_PORT' : `a process: each has one for its metrics, from ADMIN_PORT (${adminPort}) on`;
  const used = adminPort === 0 ? new Map<number, string>() : new Map(admin.map((port) => [port, nameOf(port)]));
  for (const name of ['port', 'clamdPort', 'icapPort'] as const) {
    const port = settings[name];
    if (port === null || port === 0) continue;
    const other = used.get(port);
    if (other !== undefined) problems.push(`${table[name].name} must not be the port of ${other}`);
    used.set(port, table[name].name);
  }
}

/** Where scan threads must be confined, nothing stands in for the engine that they are confined for. */
function engineChoice({ sandbox, engine }: Pick<Read['settings'], 'sandbox' | 'engine'>): Read['settings']['engine'] {
  return sandbox === 'required' && engine === 'auto' ? confinedEngine : engine;
}

function checkThreads({ settings, isWrong, problems }: Read): void {
  const { scanThreads, scanThreadsMost, sandbox, engine } = settings;
  if (sandbox === 'required' && engineChoice({ sandbox, engine }) !== confinedEngine)
    problems.push(`SANDBOX must not be required with ENGINE=${engine}: nothing would be scanned`);
  if (scanThreads === null || scanThreadsMost === null || isWrong('scanThreads')) return;
  if (scanThreadsMost < scanThreads) problems.push('SCAN_THREADS_MOST must be at least SCAN_THREADS');
}

function checkProcesses({ settings, isSet, problems }: Read): void {
  // With auto there is one where no Redis is.
  if (settings.processes === 1 || settings.processes === 'auto' || isSet('redisUrl')) return;
  problems.push('REDIS_URL is needed when PROCESSES is above 1: they share their counts');
}

/** With STRIPE_SECRET_KEY billing is on, and needs the rest; what is missing or doesn't fit goes to the problems. */
function billingSettings({ settings, isSet, isWrong, problems }: Read) {
  if (!isSet('stripeSecretKey')) return null;
  for (const name of ['stripeWebhookSecret', 'stripePrices', 'baseUrl'] as const) {
    if (!isSet(name)) problems.push(`${table[name].name} is needed when STRIPE_SECRET_KEY is set`);
  }
  const {
    stripeSecretKey: secretKey,
    stripeWebhookSecret: webhookSecret,
    stripePrices: sold,
    plans,
    baseUrl,
  } = settings;
  const names = [...plans.keys()];
  if (sold !== null && !isWrong('plans')) {
    if ([...sold.keys()].some((plan) => !plans.has(plan))) {
      problems.push(`STRIPE_PRICES must name plans of PLANS: ${names.join(', ')}`);
    }
    if (names.every((plan) => sold.has(plan))) {
      problems.push('STRIPE_PRICES must leave one plan without a price: the one of accounts that do not pay');
    }
  }
  if (secretKey === null || webhookSecret === null || sold === null || baseUrl === null) return null;
  // Where Stripe sends buyers back to; no slash at its end.
  return { secretKey, webhookSecret, apiBase: settings.stripeApiBase, returnBase: baseUrl.replace(/\/+$/, '') };
}

const STREAM_BYTES = 100 * MIB;
/** Of the memory of uploads, while STREAM_MAX_MB is not set. */
const STREAM_SHARE = 1 / 4;

/** What a content by clamd's protocol or ICAP may have; without both, what any may have. */
function streamLimit({ settings, isSet, isWrong, problems }: Read): number {
  const { streamMaxBytes, uploadMemoryBytes, maxScanSizeBytes } = settings;
  if (!isSet('clamdSocket') && !isSet('clamdPort') && !isSet('icapPort')) return CONTENT_LIMIT_BYTES;
  if (streamMaxBytes !== null && !isWrong('uploadMemoryBytes') && streamMaxBytes > uploadMemoryBytes / 2) {
    problems.push('STREAM_MAX_MB must be at most half of UPLOAD_MEMORY_MB');
  }
  if (streamMaxBytes !== null && !isWrong('maxScanSizeBytes') && streamMaxBytes >= maxScanSizeBytes) {
    problems.push('STREAM_MAX_MB must be below SCAN_MAX_SIZE_MB');
  }
  const most = Math.min(STREAM_BYTES, maxScanSizeBytes - 1, Math.floor(uploadMemoryBytes * STREAM_SHARE));
  return streamMaxBytes ?? Math.max(CONTENT_LIMIT_BYTES, most);
}

/** Of asynchronous scans: what a file may have, and the part of the store that one process has. */
function asyncBounds({ settings, isWrong, problems }: Read, processes: number) {
  const { asyncMaxBytes, asyncStoreBytes: storeBytes, uploadMemoryBytes, maxScanSizeBytes } = settings;
  const asyncStoreBytes = Math.floor(storeBytes / processes);
  const most = Math.min(STREAM_BYTES, maxScanSizeBytes - 1, uploadMemoryBytes / 2, asyncStoreBytes / 2);
  const asyncLimitBytes = asyncMaxBytes ?? Math.max(CONTENT_LIMIT_BYTES, Math.floor(most / MIB) * MIB);
  if (isWrong('asyncMaxBytes') || isWrong('asyncStoreBytes') || isWrong('maxScanSizeBytes')) {
    return { asyncLimitBytes, asyncStoreBytes };
  }
  if (asyncLimitBytes >= maxScanSizeBytes) problems.push('ASYNC_MAX_MB must be below SCAN_MAX_SIZE_MB');
  if (2 * asyncLimitBytes > asyncStoreBytes) {
    problems.push('ASYNC_STORE_MB must be at least twice ASYNC_MAX_MB, for each process');
  }
  return { asyncLimitBytes, asyncStoreBytes };
}

/** With CLAMD_SOCKET or CLAMD_PORT. */
function clamdSettings({ settings, isSet, problems }: Read) {
  const { clamdSocket: socketPath, clamdSocketMode: socketMode, clamdPort: port, clamdAccount: account } = settings;
  const { clamdSocketGroup: socketGroup, clamdAllowNetworks: networks, clamdPaths: paths } = settings;
  if (!isSet('clamdSocket') && !isSet('clamdPort')) return null;
  if (!isSet('clamdAccount')) problems.push('CLAMD_ACCOUNT is needed when CLAMD_SOCKET or CLAMD_PORT is set');
  return account === null ? null : { socketPath, socketMode, socketGroup, port, networks, account, paths };
}

/** With ICAP_PORT. */
function icapSettings({ settings, isSet, problems }: Read) {
  const { icapPort: port, icapAllowNetworks: allowNetworks, icapAccount: account } = settings;
  const { icapIncomplete: incomplete, icapBlockPage: blockPage } = settings;
  if (port === null) return null;
  if (!isSet('icapAccount')) problems.push('ICAP_ACCOUNT is needed when ICAP_PORT is set');
  return account === null ? null : { port, allowNetworks, account, incomplete, blockPage };
}

/** All three variables or none. */
function issuerSettings({ settings, isSet, isWrong, problems }: Read) {
  const needed: readonly Setting[] = ['jwtIssuer', 'jwtJwksUrl', 'jwtAudience'];
  const missing = needed.filter((name) => !isSet(name));
  if (missing.length === 3) return null;
  for (const name of missing) {
    problems.push(`${table[name].name} must be set as well: an issuer needs all three JWT_ variables`);
  }
  const { jwtIssuer: issuer, jwtJwksUrl: jwksUrl, jwtAudience: audience } = settings;
  if (!isWrong('baseUrl') && issuer === ownIssuer(settings.baseUrl)) {
    problems.push("JWT_ISSUER must not be Sluice's own");
  }
  if (issuer === null || jwksUrl === null || audience === null) return null;
  return { issuer, jwksUrl, audience };
}

/** The `iss` of our own access tokens: the same on every node that is configured alike. */
export const ownIssuer = (baseUrl: string | null): string => (baseUrl === null ? 'sluice' : baseUrl.replace(/\/$/, ''));

/** Folders whose signatures are loaded into one engine. Each of the optional ones, which come first, is left out while it has none. */
function signatureFolders(
  chosen: readonly string[] | null,
  downloads: string,
): Readonly<Record<'directories' | 'optionalDirectories', readonly string[]>> {
  if (chosen !== null) return { directories: chosen, optionalDirectories: [] };
  return { directories: [ownSignaturesDirectory], optionalDirectories: [FRESHCLAM_DIRECTORY, downloads] };
}

/** Where this machine reaches the service: an address that stands for all of them is not one to connect to. */
export function reachableUrl({ baseUrl, host }: Pick<Config, 'baseUrl' | 'host'>, port: number): string {
  if (baseUrl !== null) return baseUrl.replace(/\/$/, '');
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

export function readVersion(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(packageJsonPath, 'utf8'))).version;
}
