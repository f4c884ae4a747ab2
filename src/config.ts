// Configuration: environment variables, read and checked here and nowhere else; every problem is listed at once.
import { isIP } from 'node:net';
import { availableParallelism, totalmem } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { ownSignaturesDirectory } from './paths.js';

/** Where Debian's freshclam puts the official databases. */
const FRESHCLAM_DIRECTORY = '/var/lib/clamav';
const MIB = 1024 * 1024;

function integer(minimum: number, maximum: number) {
  return z
    .string()
    .regex(/^\d+$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(minimum, `must be at least ${minimum}`).max(maximum, `must be at most ${maximum}`));
}

function urlList(text: string, context: z.RefinementCtx): string[] {
  const urls = text.split(/[\s,]+/).filter((entry) => entry !== '');
  for (const url of urls) {
    if (!/^https?:\/\/[^/]+\/.*[^/]$/.test(url)) context.addIssue('must be http or https URLs of files');
  }
  return urls;
}

const plans = z.string().transform((text, context) => {
  const result = new Map<string, number>();
  for (const entry of text.split(',')) {
    const match = /^([A-Z][A-Z0-9_]{0,31}):([1-9]\d{0,8})$/.exec(entry.trim());
    const [, name, limit] = match ?? [];
    if (name === undefined || limit === undefined) {
      context.addIssue(`must look like FREE:50,PRO:1000, but has "${entry.trim()}"`);
      return z.NEVER;
    }
    result.set(name, Number(limit));
  }
  return result;
});

/** Plan name to price ids: `PRO:price_1,PRO:price_2,BUSINESS:price_3`. */
const prices = z.string().transform((text, context) => {
  const result = new Map<string, readonly string[]>();
  const seen = new Set<string>();
  for (const entry of text.split(',')) {
    const [, plan, price] = /^([A-Z][A-Z0-9_]{0,31}):(price_[A-Za-z0-9_]{1,200})$/.exec(entry.trim()) ?? [];
    if (plan === undefined || price === undefined || seen.has(price)) {
      context.addIssue('must look like PRO:price_1,BUSINESS:price_2, each price once');
      return z.NEVER;
    }
    seen.add(price);
    result.set(plan, [...(result.get(plan) ?? []), price]);
  }
  return result;
});

/** The secret key travels in every request, so it needs TLS, except to this very machine. */
function isSafeBase(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, pathname, search } = new URL(text);
  const isLocal = ['127.0.0.1', 'localhost', '[::1]'].includes(hostname);
  return (protocol === 'https:' || (protocol === 'http:' && isLocal)) && pathname === '/' && search === '';
}

/** A JWKS that anybody on the way can change signs for anybody; on this machine there is no way. */
function isHttpsOrLoopback(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
}

/** A list separated by commas, each entry read by `read`, which returns undefined for one that is wrong. */
function list<Entry>(read: (entry: string) => Entry | undefined, message: string) {
  return z.string().transform((text, context) => {
    const entries = text.split(',').map((entry) => read(entry.trim()));
    const known = entries.filter((entry): entry is Entry => entry !== undefined);
    if (known.length === entries.length) return known;
    context.addIssue(message);
    return z.NEVER;
  });
}

/** A network without bits beyond its prefix: 10.1.2.3/8 may be meant as one host or as sixteen million. */
function network(text: string): string | undefined {
  const [, address = '', prefix = ''] = /^([^/%]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0) return undefined;
  const bits = version === 4 ? 32 : 128;
  if (Number(prefix) > bits) return undefined;
  const bytes = ipaddr.parse(address).toByteArray();
  const isBeyond = (byte: number, index: number): boolean =>
    (byte & (0xff >> Math.min(8, Math.max(0, Number(prefix) - index * 8)))) !== 0;
  return bytes.some(isBeyond) ? undefined : text;
}

function portRange(text: string): readonly [number, number] | undefined {
  const [, first, last = first] = /^([1-9]\d{0,4})(?:-([1-9]\d{0,4}))?$/.exec(text) ?? [];
  const range = [Number(first), Number(last)] as const;
  return range[0] <= range[1] && range[1] <= 65_535 ? range : undefined;
}

/** ADDRESS, or ADDRESS:PORT with the brackets of a URL around an IPv6 one. */
function dnsServer(text: string): string | undefined {
  if (isIP(text) !== 0) return text;
  const [, six, four, port] = /^(?:\[([^\]]+)\]|([^:]+)):([1-9]\d{0,4})$/.exec(text) ?? [];
  return isIP(six ?? '') === 6 || isIP(four ?? '') === 4 ? (Number(port) <= 65_535 ? text : undefined) : undefined;
}

const networks = list(network, 'must look like 10.0.0.0/8,fd00::/8');

const variables = z.object({
  PORT: integer(0, 65_535).default(8080),
  HOST: z.string().default('127.0.0.1'),
  BASE_URL: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
  DATA_DIR: z.string().default('./data'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must start with postgres://')
    .optional(),
  REDIS_URL: z
    .string()
    .regex(
      /^rediss?(\+cluster)?:\/\/[^,]+(,\s*rediss?(\+cluster)?:\/\/[^,]+)*$/,
      'must be redis://..., a comma list of such for a cluster, or redis+cluster://...',
    )
    .optional(),
  ENGINE: z.enum(['auto', 'clamav', 'yara']).default('auto'),
  SIGNATURES_DIR: z.string().optional(),
  SIGNATURES_POLL_SECONDS: integer(0, 86_400).default(30),
  SIGNATURES_MIRROR: z
    .string()
    .regex(/^(none|https?:\/\/[^\s,]+)$/, 'must be an http or https URL, or none')
    .optional(),
  SIGNATURES_URLS: z.string().transform(urlList).default([]),
  RELOAD: z.enum(['concurrent', 'frugal']).default('concurrent'),
  VERDICT_CACHE_MB: integer(0, 65_536).default(64),
  ADMIN_PORT: integer(0, 65_535).default(9090),
  PROCESSES: integer(1, 64).default(1),
  MEMORY_LIMIT_MB: integer(0, 16_777_216).optional(),
  SCAN_THREADS: integer(1, 256).optional(),
  SCAN_QUEUE: integer(1, 100_000).default(1024),
  SCAN_TIMEOUT_MS: integer(100, 600_000).default(60_000),
  // libclamav maps less than 2 GiB, and its limit for one file must be above this one.
  SCAN_MAX_SIZE_MB: integer(11, 1_900).default(200),
  SCAN_MAX_FILES: integer(1, 1_000_000).default(10_000),
  // libclamav refuses more than 100 by itself.
  SCAN_MAX_RECURSION: integer(1, 100).default(17),
  SCAN_TEMP_MB: integer(16, 16_777_216).optional(),
  UPLOAD_TIMEOUT_MS: integer(1_000, 3_600_000).default(120_000),
  UPLOAD_WAIT_MS: integer(0, 600_000).default(15_000),
  UPLOAD_MEMORY_MB: integer(16, 1_048_576).default(Math.min(512, Math.max(64, Math.floor(totalmem() / MIB / 8)))),
  URL_ALLOW_NETWORKS: list(network, 'must list networks like 10.0.0.0/8,fd00::/8').optional(),
  URL_PORTS: list(portRange, 'must list ports like 80,443,8000-8999').optional(),
  URL_DNS_SERVERS: list(dnsServer, 'must list addresses like 192.0.2.53,[2001:db8::53]:5353').optional(),
  DOWNLOAD_TIMEOUT_MS: integer(1_000, 600_000).default(30_000),
  DOWNLOAD_MEMORY_MB: integer(16, 1_048_576).default(Math.min(256, Math.max(128, Math.floor(totalmem() / MIB / 16)))),
  DOWNLOADS_PER_USER: integer(1, 100_000).default(8),
  DOWNLOADS: integer(1, 100_000).default(256),
  SANDBOX: z.enum(['auto', 'off', 'required']).default('auto'),
  ENCRYPTED_ARCHIVES: z.enum(['allow', 'reject']).default('allow'),
  PLANS: plans.default(
    new Map([
      ['FREE', 50],
      ['PRO', 1_000],
      ['BUSINESS', 10_000],
    ]),
  ),
  STRIPE_SECRET_KEY: z
    .string()
    .regex(/^(sk|rk)_(test|live)_[A-Za-z0-9]+$/, 'must look like sk_live_... or sk_test_...')
    .optional(),
  STRIPE_WEBHOOK_SECRET: z
    .string()
    .regex(/^whsec_[\x21-\x7e]+$/, 'must look like whsec_...')
    .optional(),
  STRIPE_PRICES: prices.optional(),
  STRIPE_API_BASE: z
    .string()
    .refine(isSafeBase, 'must be an https URL without a path')
    .default('https://api.stripe.com'),
  REGISTRATION: z.enum(['open', 'closed']).default('closed'),
  TRUSTED_PROXIES: networks.default([]),
  JWT_ISSUER: z.string().max(1024).optional(),
  JWT_JWKS_URL: z
    .url({ protocol: /^https?$/, error: 'must be an https URL' })
    .refine(isHttpsOrLoopback, 'must be an https URL')
    .optional(),
  JWT_AUDIENCE: z.string().max(1024).optional(),
  APP_ENV: z.string().min(1).max(64).default('PRODUCTION'),
  HISTORY_RETENTION_DAYS: integer(1, 36_500).default(400),
  HISTORY_JOURNAL_MB: integer(1, 1_048_576).default(1024),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  BOOTSTRAP_EMAIL: z.email('must be an e-mail address').optional(),
  BOOTSTRAP_PASSWORD: z
    .string()
    .min(12, 'must have 12 to 128 characters')
    .max(128, 'must have 12 to 128 characters')
    .optional(),
  BOOTSTRAP_API_KEY: z
    .string()
    .regex(/^[0-9a-f]{32}$/, 'must be 32 lower-case hexadecimal characters')
    .optional(),
  BOOTSTRAP_PLAN: z.string().default('BUSINESS'),
});

/** Every variable that is read, for the documentation that must name them all. */
export const variableNames: readonly string[] = Object.keys(variables.shape);

export interface Config {
  readonly port: number;
  readonly host: string;
  readonly baseUrl: string | null;
  readonly dataDirectory: string;
  /** Null: the embedded store under the data directory. */
  readonly databaseUrl: string | null;
  /** Null: keys and quota are kept in this process. */
  readonly redisUrl: string | null;
  /** auto: ClamAV, or YARA rules alone where it can't be loaded. */
  readonly engine: 'auto' | 'clamav' | 'yara';
  readonly signatureFolders: SignatureFolders;
  /** Between two looks for changed databases; 0: none are made. */
  readonly signaturesPollMs: number;
  readonly reload: 'concurrent' | 'frugal';
  /** Where `signatures update` gets the official databases from; null: from ClamAV; none: from nowhere. */
  readonly signaturesMirror: string | null;
  /** What it fetches beside them. */
  readonly signatureUrls: readonly string[];
  /** Where it puts all of that when no folder of others is in use. */
  readonly signatureDownloads: string;
  /** Bytes of verdicts that are remembered; 0: none are. */
  readonly verdictCacheBytes: number;
  /** The first port for metrics; 0: any free one. */
  readonly adminPort: number;
  /** Server processes on the one port. */
  readonly processes: number;
  /** Resident bytes of one server process above which it scans no more and is restarted; null: no bound. */
  readonly memoryLimitBytes: number | null;
  readonly scanThreads: number;
  /** Scans that may wait for a thread. */
  readonly scanQueue: number;
  /** From the moment the content is whole to the verdict, waiting included. */
  readonly scanTimeoutMs: number;
  readonly scanLimits: ScanLimits;
  readonly uploadTimeoutMs: number;
  /** How long an upload waits for memory before it gets its 503. */
  readonly uploadWaitMs: number;
  /** Bytes of uploads in memory at one time. */
  readonly uploadMemoryBytes: number;
  /** Networks in CIDR notation that URL scans may reach in spite of the guard. */
  readonly urlAllowNetworks: readonly string[];
  /** First and last of each range; null: all but the refused ones. */
  readonly urlPorts: readonly (readonly [number, number])[] | null;
  /** Null: those of the machine. */
  readonly urlDnsServers: readonly string[] | null;
  /** From the first question about the URL's host to the last byte. */
  readonly downloadTimeoutMs: number;
  /** Bytes of downloads in memory at one time. */
  readonly downloadMemoryBytes: number;
  readonly downloadsPerUser: number;
  readonly downloads: number;
  readonly sandbox: 'auto' | 'off' | 'required';
  readonly encryptedArchives: 'allow' | 'reject';
  /** Plan name to scans per hour. */
  readonly plans: ReadonlyMap<string, number>;
  /** Null: billing is off. */
  readonly billing: BillingSettings | null;
  /** Who may make an account: anybody, or the operator alone. */
  readonly registration: 'open' | 'closed';
  /** CIDRs of proxies whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[];
  /** Whose access tokens are taken besides our own. */
  readonly trustedIssuer: { readonly issuer: string; readonly jwksUrl: string; readonly audience: string } | null;
  readonly appEnv: string;
  readonly historyRetentionDays: number;
  /** Bytes of rows on local disk that wait for the database; beyond, scans get 503. */
  readonly historyJournalBytes: number;
  readonly logLevel: string;
  readonly bootstrap: Bootstrap;
}

export interface BillingSettings {
  readonly secretKey: string;
  readonly webhookSecret: string;
  readonly apiBase: string;
  /** Plan name to its price ids; the first one is sold. */
  readonly prices: ReadonlyMap<string, readonly string[]>;
  /** Where Stripe sends buyers back to; no slash at its end. */
  readonly returnBase: string;
}

/** Folders whose signatures are loaded into one engine, the optional ones first. */
export interface SignatureFolders {
  /** Each must have a database. */
  readonly directories: readonly string[];
  /** Each is left out for as long as it has none. */
  readonly optionalDirectories: readonly string[];
}

/** What one content may unpack to; more is not looked at, and told. */
export interface ScanLimits {
  readonly maxScanSizeBytes: number;
  readonly maxFiles: number;
  readonly maxRecursion: number;
  /** Bytes that all scans together may have unpacked. */
  readonly maxTemporaryBytes: number;
}

export interface Bootstrap {
  readonly email: string | null;
  readonly password: string | null;
  readonly apiKey: string | null;
  readonly plan: string;
}

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

/** Of the machine's memory, or the container's, for all server processes together; the rest is for the stores and the kernel. */
const MEMORY_SHARE = 0.8;

/** `limitMb` 0: no bound. Unset: an even share of what there is. */
function memoryLimitBytes(limitMb: number | undefined, processes: number): number | null {
  if (limitMb === 0) return null;
  if (limitMb !== undefined) return limitMb * MIB;
  // What the cgroup allows, 0 where there is no limit (Node takes it from memory.max).
  const allowed = process.constrainedMemory();
  const available = allowed > 0 && allowed < totalmem() ? allowed : totalmem();
  return Math.floor((available * MEMORY_SHARE) / processes);
}

/** With STRIPE_SECRET_KEY billing is on, and needs the rest; what is missing or doesn't fit goes to the problems. */
function billingSettings(v: z.infer<typeof variables>, problems: string[]): BillingSettings | null {
  const { STRIPE_SECRET_KEY: secretKey, STRIPE_WEBHOOK_SECRET: webhookSecret, STRIPE_PRICES: sold } = v;
  if (secretKey === undefined) return null;
  const missing = (name: string): void => void problems.push(`${name} is needed when STRIPE_SECRET_KEY is set`);
  if (webhookSecret === undefined) missing('STRIPE_WEBHOOK_SECRET');
  if (sold === undefined) missing('STRIPE_PRICES');
  if (v.BASE_URL === undefined) missing('BASE_URL');
  const names = [...v.PLANS.keys()];
  if (sold !== undefined) {
    if ([...sold.keys()].some((plan) => !v.PLANS.has(plan))) {
      problems.push(`STRIPE_PRICES must name plans of PLANS: ${names.join(', ')}`);
    }
    if (names.every((plan) => sold.has(plan))) {
      problems.push('STRIPE_PRICES must leave one plan without a price: the one of accounts that do not pay');
    }
  }
  if (webhookSecret === undefined || sold === undefined || v.BASE_URL === undefined) return null;
  const returnBase = v.BASE_URL.replace(/\/+$/, '');
  return { secretKey, webhookSecret, apiBase: v.STRIPE_API_BASE, prices: sold, returnBase };
}

/** All three variables or none. */
function issuerSettings(v: z.infer<typeof variables>, problems: string[]): Config['trustedIssuer'] {
  const { JWT_ISSUER: issuer, JWT_JWKS_URL: jwksUrl, JWT_AUDIENCE: audience } = v;
  const given = Object.entries({ JWT_ISSUER: issuer, JWT_JWKS_URL: jwksUrl, JWT_AUDIENCE: audience });
  const missing = given.filter(([, value]) => value === undefined);
  if (missing.length === given.length) return null;
  for (const [name] of missing) problems.push(`${name} must be set as well: an issuer needs all three JWT_ variables`);
  if (issuer === ownIssuer(v.BASE_URL ?? null)) problems.push("JWT_ISSUER must not be Sluice's own");
  if (issuer === undefined || jwksUrl === undefined || audience === undefined) return null;
  return { issuer, jwksUrl, audience };
}

/** The `iss` of our own access tokens: the same on every node that is configured alike. */
export function ownIssuer(baseUrl: string | null): string {
  return baseUrl === null ? 'sluice' : baseUrl.replace(/\/$/, '');
}

/** SIGNATURES_DIR replaces the default folders; several are separated like those of PATH. */
function signatureFolders(setting: string | undefined, downloads: string): SignatureFolders {
  if (setting === undefined) {
    return { directories: [ownSignaturesDirectory], optionalDirectories: [FRESHCLAM_DIRECTORY, downloads] };
  }
  const directories = setting.split(delimiter).filter((entry) => entry !== '');
  return { directories: directories.map((entry) => resolve(entry)), optionalDirectories: [] };
}
