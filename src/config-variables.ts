// Every environment variable that is read, with what it may be and what it is when it isn't set.
import { totalmem } from 'node:os';
import { z } from 'zod';
import {
  dnsServer,
  integer,
  isHttpsOrLoopback,
  isSafeBase,
  list,
  network,
  plans,
  portRange,
  prices,
  urlList,
} from './config-values.js';

const MIB = 1024 * 1024;

const networks = list(network, 'must look like 10.0.0.0/8,fd00::/8');

export const variables = z.object({
  PORT: integer(0, 65_535).default(8080),
  HOST: z.string().default('127.0.0.1'),
  BASE_URL: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
  DATA_DIR: z.string().default('./data'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must start with postgres://')
    .optional(),
  DATABASE_USER: z
    .string()
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$/, 'must be the name or the number of a user')
    .optional(),
  REDIS_URL: z
    .string()
    .regex(
      /^rediss?(\+cluster)?:\/\/[^,]+(,\s*rediss?(\+cluster)?:\/\/[^,]+)*$/,
      'must be redis://..., a comma list of such for a cluster, or redis+cluster://...',
    )
    .optional(),
  ENGINE: z.enum(['auto', 'clamav', 'yara']).default('auto'),
  ENGINE_GATES: z.enum(['on', 'off']).default('off'),
  SIGNATURES_DIR: z.string().optional(),
  SIGNATURES_POLL_SECONDS: integer(0, 86_400).default(30),
  SIGNATURES_MIRROR: z
    .string()
    .regex(/^(none|https?:\/\/[^\s,]+)$/, 'must be an http or https URL, or none')
    .optional(),
  SIGNATURES_URLS: z.string().transform(urlList).default([]),
  RELOAD: z.enum(['concurrent', 'frugal']).default('concurrent'),
  VERDICT_CACHE: z.enum(['shared', 'account', 'off']).default('shared'),
  VERDICT_CACHE_MB: integer(0, 65_536).default(64),
  ADMIN_PORT: integer(0, 65_535).default(9090),
  CONNECTIONS: integer(16, 1_000_000).optional(),
  CONNECTIONS_PER_ADDRESS: integer(1, 1_000_000).optional(),
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
  MEMORY_RESERVE_PERCENT: integer(5, 50).default(25),
  UPLOAD_MEMORY_MB: integer(16, 1_048_576).default(Math.min(512, Math.max(64, Math.floor(totalmem() / MIB / 8)))),
  URL_ALLOW_NETWORKS: list(network, 'must list networks like 10.0.0.0/8,fd00::/8').optional(),
  URL_PORTS: list(portRange, 'must list ports like 80,443,8000-8999').optional(),
  URL_DNS_SERVERS: list(dnsServer, 'must list addresses like 192.0.2.53,[2001:db8::53]:5353').optional(),
  DOWNLOAD_TIMEOUT_MS: integer(1_000, 600_000).default(30_000),
  DOWNLOAD_MEMORY_MB: integer(16, 1_048_576).default(Math.min(256, Math.max(128, Math.floor(totalmem() / MIB / 16)))),
  DOWNLOADS_PER_USER: integer(1, 100_000).default(8),
  DOWNLOADS: integer(1, 100_000).default(256),
  CORE_DUMPS: z.enum(['on', 'off']).default('off'),
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

export type Variables = z.infer<typeof variables>;

/** Every variable that is read, for the documentation that must name them all. */
export const variableNames: readonly string[] = Object.keys(variables.shape);
