// The one table of environment variables. A row is a setting: its variable, its text while that is not set, its line of `--help` and of
// docs/operations.md, and what reads and checks the text. The type of the configuration is inferred from it.
import { totalmem } from 'node:os';
import { z } from 'zod';
import { observingTable, protocolTable } from './other-variables.js';
import {
  bare,
  databaseUrl,
  dnsServer,
  folderList,
  initially,
  integer,
  integerOrAuto,
  isBaseUrl,
  isHost,
  isHttpsOrLoopback,
  isMailUrl,
  isSafeBase,
  list,
  MIB,
  megabytes,
  network,
  optional,
  otherwise,
  path,
  plans,
  portRange,
  prices,
  redisUrl,
  urlList,
  type VariableRow,
} from './values.js';

/** In bytes. */
export function memoryOfMachine(): number {
  // What the cgroup allows, 0 where there is no limit (Node takes it from memory.max).
  const allowed = process.constrainedMemory();
  return allowed > 0 && allowed < totalmem() ? allowed : totalmem();
}

/** Of that, in bytes. */
function shareOfMachine(share: number, leastMb: number, mostMb: number): number {
  return Math.min(mostMb, Math.max(leastMb, Math.floor((memoryOfMachine() / MIB) * share))) * MIB;
}

/** A new engine has its word here, and its place in engine/loading.ts. */
export const engineChoices = ['auto', 'clamav', 'yara'] as const;
/** Scan threads are confined for this one alone. */
export const confinedEngine = 'clamav';

const onOrOff = z.enum(['on', 'off']).transform((word) => word === 'on');

export const table = {
  port: initially('PORT', '8080', 'port to listen on; 0 takes a free one', integer(0, 65_535)),
  host: initially(
    'HOST',
    '127.0.0.1',
    'address to listen on (the image sets 0.0.0.0)',
    z.string().refine(isHost, 'must be an address such as 0.0.0.0 or ::, or a host name'),
  ),
  baseUrl: optional(
    'BASE_URL',
    'public http or https URL of the service; unset: as the client addressed it',
    z.string().refine(isBaseUrl, 'must be an http or https URL, without a user, ? and #'),
  ),
  dataDirectory: initially('DATA_DIR', './data', 'folder of the history journal and of the embedded database', path),
  databaseUrl: optional(
    'DATABASE_URL',
    'postgres://...; postgres:///DATABASE?host=/FOLDER for a UNIX socket; unset: the embedded database under DATA_DIR',
    databaseUrl,
  ),
  databaseUser: optional(
    'DATABASE_USER',
    'user that the embedded database runs as where root starts Sluice; unset: nobody, or the owner of what is there',
    z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$/, 'must be the name or the number of a user'),
  ),
  redisUrl: optional(
    'REDIS_URL',
    'redis://... or rediss://..., a comma list of such or redis+cluster://..., rediss+cluster://... for a cluster, redis+sentinel://HOST,HOST/MASTER or rediss+sentinel://... for Sentinels; unset: quota and keys are kept in the process, which is exact for one',
    redisUrl,
  ),
  engine: initially(
    'ENGINE',
    'auto',
    'auto: ClamAV, and where it or its databases cannot be loaded YARA rules alone, which look at raw content: containers are incomplete; clamav or yara: only that',
    z.enum(engineChoices),
  ),
  hasGates: initially(
    'ENGINE_GATES',
    'on',
    'on: logical and extended signatures are asked only where bytes that they need are found (gates): the same verdicts for less work; off: one engine looks at everything',
    onOrOff,
  ),
  /** Separated like those of PATH. */
  signaturesDir: optional(
    'SIGNATURES_DIR',
    "folders with signatures and YARA rules, separated by a colon; unset: those that freshclam fills (/var/lib/clamav), those of `signatures update` (DATA_DIR/signatures), if any, and the project's own",
    z.string().transform(folderList),
  ),
  signaturesPollMs: initially(
    'SIGNATURES_POLL_SECONDS',
    '30',
    'seconds between two looks for newer signatures, to 86400; 0: on SIGHUP only',
    integer(0, 86_400).transform((seconds) => seconds * 1000),
  ),
  signaturesMirror: optional(
    'SIGNATURES_MIRROR',
    "URL of a mirror of ClamAV's databases, for `signatures update`; unset: ClamAV's own; none: only SIGNATURES_URLS",
    z.string().regex(/^(none|https?:\/\/[^\s,]+)$/, 'must be an http or https URL, or none'),
  ),
  signaturesUpdate: optional(
    'SIGNATURES_UPDATE',
    'auto: the supervisor does what `signatures update` does, every four hours; off: only when told; unset: auto where freshclam is installed',
    z.enum(['auto', 'off']),
  ),
  signatureUrls: otherwise(
    'SIGNATURES_URLS',
    [],
    'URLs of further database files for `signatures update`, separated by commas',
    z.string().transform(urlList),
  ),
  verdictScope: initially(
    'VERDICT_CACHE',
    'shared',
    'whose verdicts are remembered for an account: shared: those of all accounts, and only its own are said to be remembered; account: only its own',
    z.enum(['shared', 'account']),
  ),
  verdictCacheBytes: initially(
    'VERDICT_CACHE_MB',
    '64',
    'MB of verdicts that are remembered, about 4000 contents each, to 65536; as much of Redis; 0: none',
    megabytes(0, 65_536),
  ),
  adminPort: initially(
    'ADMIN_PORT',
    '9090',
    'port of GET /metrics (Prometheus), on 127.0.0.1 only; 0 takes a free one; with PROCESSES the next ones, too',
    integer(0, 65_535),
  ),
  connections: optional(
    'CONNECTIONS',
    'connections of one process at a time, 16 to 1000000; unset: what the limit of open files leaves, at most 100000',
    integer(16, 1_000_000),
  ),
  connectionsPerAddress: optional(
    'CONNECTIONS_PER_ADDRESS',
    'of them those of one address (of IPv6: one /64), 1 to 1000000; unset: a quarter, and with TRUSTED_PROXIES all',
    integer(1, 1_000_000),
  ),
  processes: initially(
    'PROCESSES',
    '1',
    'server processes on the one port, 1 to 64, each with signatures and threads of its own; above 1 REDIS_URL is needed; auto: one for every 4 cores that there is memory for, and without REDIS_URL one',
    integerOrAuto(1, 64),
  ),
  memoryLimitBytes: optional(
    'MEMORY_LIMIT_MB',
    "MB of resident memory above which a server process scans no more and is restarted; 0: no bound; unset: 80 % of the machine's or the container's, divided by PROCESSES",
    megabytes(0, 16_777_216),
  ),
  scanThreads: optional(
    'SCAN_THREADS',
    'scan threads of one process, 1 to 256; unset: one for each core of the machine or the container, divided by PROCESSES',
    integer(1, 256),
  ),
  /** With those for content over 1 MB and those beside long scans; null: what is usual for so many. */
  scanThreadsMost: optional(
    'SCAN_THREADS_MOST',
    'scan threads of one process with those for content over 1 MB and those beside long scans, 1 to 2048; unset: eight times SCAN_THREADS',
    integer(1, 2048),
  ),
  scanQueue: initially(
    'SCAN_QUEUE',
    '1024',
    'scans that may wait for a thread, as many again over 1 MB, 1 to 100000; the next one gets 503',
    integer(1, 100_000),
  ),
  scanTimeoutMs: initially(
    'SCAN_TIMEOUT_MS',
    '60000',
    'milliseconds from the whole content to the verdict, 100 to 600000',
    integer(100, 600_000),
  ),
  // libclamav maps less than 2 GiB, and its limit for one file must be above this one.
  maxScanSizeBytes: initially(
    'SCAN_MAX_SIZE_MB',
    '200',
    'MB that one content may unpack to, 11 to 1900; over this or the next one it is incomplete',
    megabytes(11, 1_900),
  ),
  maxFiles: initially(
    'SCAN_MAX_FILES',
    '10000',
    'files that one content may hold, 1 to 1000000',
    integer(1, 1_000_000),
  ),
  maxTemporaryBytes: optional(
    'SCAN_TEMP_MB',
    'MB that all scans together may have unpacked at one time, from 16; unset: twice SCAN_THREADS times SCAN_MAX_SIZE_MB, and no more than a sixteenth of the memory divided by PROCESSES, but SCAN_MAX_SIZE_MB',
    megabytes(16, 16_777_216),
  ),
  uploadTimeoutMs: initially(
    'UPLOAD_TIMEOUT_MS',
    '120000',
    'milliseconds that an upload may take, 1000 to 3600000',
    integer(1_000, 3_600_000),
  ),
  uploadWaitMs: initially(
    'UPLOAD_WAIT_MS',
    '15000',
    'milliseconds that an upload waits for memory that other accounts have, before its 503, 0 to 600000; for what its own account has: UPLOAD_TIMEOUT_MS',
    integer(0, 600_000),
  ),
  uploadMemoryBytes: otherwise(
    'UPLOAD_MEMORY_MB',
    shareOfMachine(1 / 8, 64, 512),
    "MB of uploads in memory, from 16; unset: an eighth of the machine's or the container's, 64 to 512",
    megabytes(16, 1_048_576),
  ),
  asyncMaxBytes: optional(
    'ASYNC_MAX_MB',
    'MB that a file may have that is scanned asynchronously, 10 to 1000, below SCAN_MAX_SIZE_MB; unset: 100, or half of UPLOAD_MEMORY_MB',
    megabytes(10, 1_000),
  ),
  asyncStoreBytes: initially(
    'ASYNC_STORE_MB',
    '1024',
    'MB of accepted files that wait on disk for their verdict, from 32, at least twice ASYNC_MAX_MB for each process; beyond: 503',
    megabytes(32, 16_777_216),
  ),
  encryptionKey: optional(
    'ENCRYPTION_KEY',
    '64 hexadecimal characters, the same on all nodes: what is encrypted at rest can be read with it and the database only; unset: with the database',
    z
      .string()
      .regex(/^[0-9a-fA-F]{64}$/, 'must be 64 hexadecimal characters')
      .transform((text) => Buffer.from(text, 'hex')),
  ),
  urlAllowNetworks: otherwise(
    'URL_ALLOW_NETWORKS',
    [],
    'networks that URL scans may reach though they are not public: 10.1.0.0/16,fd00::/8',
    list(network, 'must list networks like 10.0.0.0/8,fd00::/8'),
  ),
  urlPorts: optional(
    'URL_PORTS',
    'ports that URL scans may use: 80,443,8000-8999; unset: all but those of known services',
    list(portRange, 'must list ports like 80,443,8000-8999'),
  ),
  urlDnsServers: optional(
    'URL_DNS_SERVERS',
    "DNS servers for the hosts of URLs: 192.0.2.53,[2001:db8::53]:5353; unset: the machine's",
    list(dnsServer, 'must list addresses like 192.0.2.53,[2001:db8::53]:5353'),
  ),
  downloadTimeoutMs: initially(
    'DOWNLOAD_TIMEOUT_MS',
    '30000',
    'milliseconds that a download may take, 1000 to 600000',
    integer(1_000, 600_000),
  ),
  downloadMemoryBytes: otherwise(
    'DOWNLOAD_MEMORY_MB',
    shareOfMachine(1 / 16, 128, 256),
    "MB of downloads in memory, from 16, beside UPLOAD_MEMORY_MB; unset: a sixteenth of the machine's or the container's, 128 to 256",
    megabytes(16, 1_048_576),
  ),
  downloadsPerUser: initially(
    'DOWNLOADS_PER_USER',
    '8',
    'downloads of one account at a time, 1 to 100000; the next one gets 503',
    integer(1, 100_000),
  ),
  ...protocolTable,
  httpServer: initially(
    'HTTP_SERVER',
    'auto',
    'uws: uWebSockets.js; node: what Node brings, about half as fast; auto: the first where it can be loaded, otherwise the second',
    z.enum(['auto', 'uws', 'node']),
  ),
  coreDumps: initially(
    'CORE_DUMPS',
    'off',
    'off: a crash leaves no file of the memory, and no debugger of the same user can look into it; on: as the system has it',
    z.enum(['on', 'off']),
  ),
  sandbox: initially(
    'SANDBOX',
    'auto',
    'auto: scan threads lose network, programs and foreign files where the kernel can (seccomp, Landlock); required: no start without; off',
    z.enum(['auto', 'off', 'required']),
  ),
  encryptedArchives: initially(
    'ENCRYPTED_ARCHIVES',
    'allow',
    'allow: encrypted members count as looked at; reject: the scan is incomplete',
    z.enum(['allow', 'reject']),
  ),
  plans: initially('PLANS', 'FREE:50,PRO:1000,BUSINESS:10000', 'plans with their scans per hour', plans),
  stripeSecretKey: optional(
    'STRIPE_SECRET_KEY',
    'turns billing on: sk_live_... or sk_test_...; then BASE_URL and the next two are needed',
    z.string().regex(/^(sk|rk)_(test|live)_[A-Za-z0-9]+$/, 'must look like sk_live_... or sk_test_...'),
  ),
  stripeWebhookSecret: optional(
    'STRIPE_WEBHOOK_SECRET',
    'whsec_..., of the webhook endpoint BASE_URL/webhooks/stripe',
    z.string().regex(/^whsec_[\x21-\x7e]+$/, 'must look like whsec_...'),
  ),
  stripePrices: optional(
    'STRIPE_PRICES',
    'prices of plans, PRO:price_1,BUSINESS:price_2; of several prices of a plan the first one is sold',
    prices,
  ),
  stripeApiBase: initially(
    'STRIPE_API_BASE',
    'https://api.stripe.com',
    "where Stripe's API is; https, or this machine",
    z.string().refine(isSafeBase, 'must be an https URL without a path'),
  ),
  registration: initially(
    'REGISTRATION',
    'closed',
    'open: anybody may make an account; closed: the operator makes them',
    z.enum(['open', 'closed']),
  ),
  operatorTwoFactor: initially(
    'OPERATOR_2FA',
    'optional',
    'required: operators without a second factor see nothing of others until they have one',
    z.enum(['optional', 'required']),
  ),
  smtpUrl: optional(
    'SMTP_URL',
    'where mail goes out, smtp://user:password@host:587 or smtps://: then links to another password are sent',
    z.string().refine(isMailUrl, 'must be an smtp or smtps URL'),
  ),
  mailFrom: initially(
    'MAIL_FROM',
    'sluice@localhost',
    'who mail is from',
    z.string().regex(/^[^\s@<>",;]+@[^\s@<>",;]+$/, 'must be an e-mail address'),
  ),
  trustedProxies: otherwise(
    'TRUSTED_PROXIES',
    [],
    'networks of your proxies, 10.0.0.0/8,fd00::/8: the X-Forwarded-For that comes from there says who the client is',
    list(network, 'must look like 10.0.0.0/8,fd00::/8'),
  ),
  jwtIssuer: optional(
    'JWT_ISSUER',
    'issuer whose access tokens are taken besides our own; needs the next two',
    bare.max(1024),
  ),
  jwtJwksUrl: optional(
    'JWT_JWKS_URL',
    'https URL of its keys',
    z
      .url({ protocol: /^https?$/, error: 'must be an https URL without a user' })
      .refine(isHttpsOrLoopback, 'must be an https URL without a user'),
  ),
  jwtAudience: optional('JWT_AUDIENCE', 'what its tokens must name as their audience', bare.max(1024)),
  securityContact: optional(
    'SECURITY_CONTACT',
    'where a vulnerability of this service is reported, mailto:... or https://..., for /.well-known/security.txt; unset: there is none',
    z.string().regex(/^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/, 'must be mailto:... or https://...'),
  ),
  appEnv: initially(
    'APP_ENV',
    'PRODUCTION',
    'name of the environment in the history, 1 to 64 characters',
    bare.max(64),
  ),
  historyRetentionDays: initially(
    'HISTORY_RETENTION_DAYS',
    '400',
    'days that the history is kept, 1 to 36500; whole months are dropped',
    integer(1, 36_500),
  ),
  historyJournalBytes: initially(
    'HISTORY_JOURNAL_MB',
    '1024',
    'MB of scans on disk that wait for the database; beyond, scans get 503',
    megabytes(1, 1_048_576),
  ),
  ...observingTable,
  bootstrapEmail: optional(
    'BOOTSTRAP_EMAIL',
    'account that the first start on an empty store makes',
    z.email('must be an e-mail address'),
  ),
  bootstrapPassword: optional(
    'BOOTSTRAP_PASSWORD',
    'its password, 12 to 128 characters',
    z.string().min(12, 'must have 12 to 128 characters').max(128, 'must have 12 to 128 characters'),
  ),
  bootstrapApiKey: optional(
    'BOOTSTRAP_API_KEY',
    'its API key, 32 lower-case hexadecimal characters',
    z.string().regex(/^[0-9a-f]{32}$/, 'must be 32 lower-case hexadecimal characters'),
  ),
  bootstrapPlan: initially('BOOTSTRAP_PLAN', 'BUSINESS', 'its plan, one of PLANS', z.string()),
} as const satisfies Record<string, VariableRow<unknown>>;

type Table = typeof table;
export type Setting = keyof Table;
/** Every setting by itself, as its variable says it. */
export type Settings = { readonly [Name in Setting]: Table[Name]['unset'] };

/** Every variable, in the order of `--help`. */
export const environment: readonly Pick<VariableRow<unknown>, 'name' | 'default' | 'about'>[] = Object.values(table);

export interface Read {
  /** With what it is while unset in the place of one that is wrong. */
  readonly settings: Settings;
  /** It is set, to any value. */
  isSet(setting: Setting): boolean;
  /** It is set to what it can't be, which is among the problems: what follows from its value is not known. */
  isWrong(setting: Setting): boolean;
  readonly problems: string[];
}

function wordsFor(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'too_big') return `must have at most ${issue.maximum} characters`;
  return issue.code === 'invalid_value' ? `must be one of ${issue.values.map(String).join(', ')}` : undefined;
}

/** Each variable by itself. A problem names the variable and never its value, which may be a secret. */
export function readVariables(env: Readonly<Record<string, string | undefined>>): Read {
  const problems: string[] = [];
  const wrong = new Set<string>();
  // An empty variable is an unset one: compose files and unit files leave them behind.
  const textOf = (row: VariableRow<unknown>): string => env[row.name] ?? '';
  const read = ([setting, row]: [string, VariableRow<unknown>]): [string, unknown] => {
    if (textOf(row) === '') return [setting, row.unset];
    const parsed = row.schema.safeParse(textOf(row), { error: wordsFor });
    if (parsed.success) return [setting, parsed.data];
    wrong.add(setting);
    const messages = new Set(parsed.error.issues.map(({ message }) => message));
    for (const message of messages) problems.push(`${row.name} ${message}`);
    return [setting, row.unset];
  };
  return {
    settings: Object.fromEntries(Object.entries<VariableRow<unknown>>(table).map(read)) as unknown as Settings,
    isSet: (setting) => textOf(table[setting]) !== '',
    isWrong: (setting) => wrong.has(setting),
    problems,
  };
}
