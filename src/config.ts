// Configuration: environment variables, read and checked here and nowhere else; every problem is listed at once.
import { existsSync, readdirSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
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

const variables = z.object({
  PORT: integer(0, 65_535).default(8080),
  HOST: z.string().default('127.0.0.1'),
  BASE_URL: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
  DATA_DIR: z.string().default('./data'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must start with postgres://')
    .optional(),
  SIGNATURES_DIR: z.string().optional(),
  SIGNATURES_POLL_SECONDS: integer(0, 86_400).default(30),
  SIGNATURES_MIRROR: z
    .string()
    .regex(/^(none|https?:\/\/[^\s,]+)$/, 'must be an http or https URL, or none')
    .optional(),
  SIGNATURES_URLS: z.string().transform(urlList).default([]),
  RELOAD: z.enum(['concurrent', 'frugal']).default('concurrent'),
  VERDICT_CACHE_MB: integer(0, 65_536).default(64),
  SCAN_THREADS: integer(1, 256).default(availableParallelism()),
  SCAN_QUEUE: integer(1, 100_000).default(1024),
  SCAN_TIMEOUT_MS: integer(100, 600_000).default(60_000),
  // libclamav maps less than 2 GiB, and its limit for one file must be above this one.
  SCAN_MAX_SIZE_MB: integer(11, 1_900).default(200),
  SCAN_MAX_FILES: integer(1, 1_000_000).default(10_000),
  // libclamav refuses more than 100 by itself.
  SCAN_MAX_RECURSION: integer(1, 100).default(17),
  UPLOAD_TIMEOUT_MS: integer(1_000, 3_600_000).default(120_000),
  UPLOAD_WAIT_MS: integer(0, 600_000).default(15_000),
  UPLOAD_MEMORY_MB: integer(16, 1_048_576).default(Math.min(512, Math.max(64, Math.floor(totalmem() / MIB / 8)))),
  ENCRYPTED_ARCHIVES: z.enum(['allow', 'reject']).default('allow'),
  PLANS: plans.default(
    new Map([
      ['FREE', 50],
      ['PRO', 1_000],
      ['BUSINESS', 10_000],
    ]),
  ),
  APP_ENV: z.string().min(1).max(64).default('PRODUCTION'),
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
  /** Folders that are loaded into one engine, in order. */
  readonly signatureDirectories: readonly string[];
  /** Between two looks for changed databases; 0: none are made. */
  readonly signaturesPollMs: number;
  readonly reload: 'concurrent' | 'frugal';
  /** Where `signatures update` gets the official databases from; null: from ClamAV; none: from nowhere. */
  readonly signaturesMirror: string | null;
  /** What it fetches beside them. */
  readonly signatureUrls: readonly string[];
  /** Where it puts all of that, unless told otherwise. */
  readonly signaturesTarget: string;
  /** Bytes of verdicts that are remembered; 0: none are. */
  readonly verdictCacheBytes: number;
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
  readonly encryptedArchives: 'allow' | 'reject';
  /** Plan name to scans per hour. */
  readonly plans: ReadonlyMap<string, number>;
  readonly appEnv: string;
  readonly logLevel: string;
  readonly bootstrap: Bootstrap;
}

/** What one content may unpack to; more is not looked at, and told. */
export interface ScanLimits {
  readonly maxScanSizeBytes: number;
  readonly maxFiles: number;
  readonly maxRecursion: number;
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
  if (!v.PLANS.has(v.BOOTSTRAP_PLAN)) {
    throw new ConfigError([`BOOTSTRAP_PLAN must be one of ${[...v.PLANS.keys()].join(', ')}`]);
  }
  const dataDirectory = resolve(v.DATA_DIR);
  const downloads = join(dataDirectory, 'signatures');
  const directories = signatureDirectories(v.SIGNATURES_DIR, downloads);
  return {
    port: v.PORT,
    host: v.HOST,
    baseUrl: v.BASE_URL ?? null,
    dataDirectory,
    databaseUrl: v.DATABASE_URL ?? null,
    signatureDirectories: directories,
    signaturesMirror: v.SIGNATURES_MIRROR ?? null,
    signatureUrls: v.SIGNATURES_URLS,
    signaturesTarget: directories.find((directory) => directory !== ownSignaturesDirectory) ?? downloads,
    signaturesPollMs: v.SIGNATURES_POLL_SECONDS * 1000,
    reload: v.RELOAD,
    verdictCacheBytes: v.VERDICT_CACHE_MB * MIB,
    scanThreads: v.SCAN_THREADS,
    scanQueue: v.SCAN_QUEUE,
    scanTimeoutMs: v.SCAN_TIMEOUT_MS,
    scanLimits: {
      maxScanSizeBytes: v.SCAN_MAX_SIZE_MB * MIB,
      maxFiles: v.SCAN_MAX_FILES,
      maxRecursion: v.SCAN_MAX_RECURSION,
    },
    uploadTimeoutMs: v.UPLOAD_TIMEOUT_MS,
    uploadWaitMs: v.UPLOAD_WAIT_MS,
    uploadMemoryBytes: v.UPLOAD_MEMORY_MB * MIB,
    encryptedArchives: v.ENCRYPTED_ARCHIVES,
    plans: v.PLANS,
    appEnv: v.APP_ENV,
    logLevel: v.LOG_LEVEL,
    bootstrap: {
      email: v.BOOTSTRAP_EMAIL ?? null,
      password: v.BOOTSTRAP_PASSWORD ?? null,
      apiKey: v.BOOTSTRAP_API_KEY ?? null,
      plan: v.BOOTSTRAP_PLAN,
    },
  };
}

/** SIGNATURES_DIR replaces the default folders; several are separated like those of PATH. */
function signatureDirectories(setting: string | undefined, downloads: string): string[] {
  if (setting !== undefined) {
    return setting
      .split(delimiter)
      .filter((entry) => entry !== '')
      .map((entry) => resolve(entry));
  }
  const official = hasDatabase(FRESHCLAM_DIRECTORY) ? [FRESHCLAM_DIRECTORY] : [];
  const downloaded = existsSync(downloads) && readdirSync(downloads).length > 0 ? [downloads] : [];
  return [...official, ...downloaded, ownSignaturesDirectory];
}

function hasDatabase(directory: string): boolean {
  return existsSync(directory) && readdirSync(directory).some((name) => /\.(cvd|cld|cud)$/.test(name));
}
