// The one table of environment variables: what each may be, what it is when it isn't set, and its line of `--help` and of docs/operations.md.
import { totalmem } from 'node:os';
import { z } from 'zod';
import {
  dnsServer,
  integer,
  integerOrAuto,
  isHttpsOrLoopback,
  isSafeBase,
  list,
  network,
  plans,
  portRange,
  prices,
  urlList,
} from './values.js';

const MIB = 1024 * 1024;

const networks = list(network, 'must look like 10.0.0.0/8,fd00::/8');

/** A new engine has its word here, and its place in engine/build.ts. */
const engineChoices = ['auto', 'clamav', 'yara'] as const;
export type EngineChoice = (typeof engineChoices)[number];

/** What people read about a variable. */
interface Text {
  /** The text that means the same as leaving it out; null where there is none, or where it depends on the machine. */
  readonly default: string | null;
  readonly about: string;
}

const texts = new Map<z.ZodType, Text>();

/** A variable that may be left out, with the text that it has then. */
function initially<Schema extends z.ZodType>(text: z.input<Schema> & string, about: string, schema: Schema) {
  const variable = schema.prefault(text);
  texts.set(variable, { default: text, about });
  return variable;
}

function described<Schema extends z.ZodType>(about: string, schema: Schema) {
  texts.set(schema, { default: null, about });
  return schema;
}

export const variables = z.object({
  PORT: initially('8080', 'port to listen on; 0 takes a free one', integer(0, 65_535)),
  HOST: initially('127.0.0.1', 'address to listen on (the image sets 0.0.0.0)', z.string()),
  BASE_URL: described(
    'public http or https URL of the service; unset: as the client addressed it',
    z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
  ),
  DATA_DIR: initially('./data', 'folder of the history journal and of the embedded database', z.string()),
  DATABASE_URL: described(
    'postgres://...; unset: the embedded database under DATA_DIR',
    z
      .string()
      .regex(/^postgres(ql)?:\/\//, 'must start with postgres://')
      .optional(),
  ),
  DATABASE_USER: described(
    'user that the embedded database runs as where root starts Sluice; unset: nobody, or the owner of what is there',
    z
      .string()
      .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$/, 'must be the name or the number of a user')
      .optional(),
  ),
  REDIS_URL: described(
    'redis://... or rediss://..., a comma list of such or redis+cluster://... for a cluster; unset: quota and keys are kept in the process, which is exact for one',
    z
      .string()
      .regex(
        /^rediss?(\+cluster)?:\/\/[^,]+(,\s*rediss?(\+cluster)?:\/\/[^,]+)*$/,
        'must be redis://..., a comma list of such for a cluster, or redis+cluster://...',
      )
      .optional(),
  ),
  ENGINE: initially(
    'auto',
    'auto: ClamAV, and where it or its databases cannot be loaded YARA rules alone, which look at raw content: containers are incomplete; clamav or yara: only that',
    z.enum(engineChoices),
  ),
  ENGINE_GATES: initially(
    'on',
    'on: logical signatures are asked only where bytes that they need are found (gates): the same verdicts for less work; off: one engine looks at everything',
    z.enum(['on', 'off']),
  ),
  SIGNATURES_DIR: described(
    "folders with signatures and YARA rules, separated by a colon; unset: those that freshclam fills (/var/lib/clamav), those of `signatures update` (DATA_DIR/signatures), if any, and the project's own",
    z.string().optional(),
  ),
  SIGNATURES_POLL_SECONDS: initially(
    '30',
    'seconds between two looks for newer signatures, to 86400; 0: on SIGHUP only',
    integer(0, 86_400),
  ),
  SIGNATURES_MIRROR: described(
    "URL of a mirror of ClamAV's databases, for `signatures update`; unset: ClamAV's own; none: only SIGNATURES_URLS",
    z
      .string()
      .regex(/^(none|https?:\/\/[^\s,]+)$/, 'must be an http or https URL, or none')
      .optional(),
  ),
  SIGNATURES_URLS: described(
    'URLs of further database files for `signatures update`, separated by commas',
    z.string().transform(urlList).default([]),
  ),
  VERDICT_CACHE: initially(
    'shared',
    'whose verdicts are remembered for an account: shared: those of all accounts, and only its own are said to be remembered; account: only its own; off: none',
    z.enum(['shared', 'account', 'off']),
  ),
  VERDICT_CACHE_MB: initially(
    '64',
    'MB of verdicts that are remembered, about 2000 contents each, to 65536; as much of Redis; 0: none',
    integer(0, 65_536),
  ),
  ADMIN_PORT: initially(
    '9090',
    'port of GET /metrics (Prometheus), on 127.0.0.1 only; 0 takes a free one; with PROCESSES the next ones, too',
    integer(0, 65_535),
  ),
  CONNECTIONS: described(
    'connections of one process at a time, 16 to 1000000; unset: what the limit of open files leaves, at most 100000',
    integer(16, 1_000_000).optional(),
  ),
  CONNECTIONS_PER_ADDRESS: described(
    'of them those of one address (of IPv6: one /64), 1 to 1000000; unset: a quarter, and with TRUSTED_PROXIES all',
    integer(1, 1_000_000).optional(),
  ),
  PROCESSES: initially(
    '1',
    'server processes on the one port, 1 to 64, each with signatures and threads of its own; above 1 REDIS_URL is needed; auto: one for every 4 cores that there is memory for, and without REDIS_URL one',
    integerOrAuto(1, 64),
  ),
  MEMORY_LIMIT_MB: described(
    "MB of resident memory above which a server process scans no more and is restarted; 0: no bound; unset: 80 % of the machine's or the container's, divided by PROCESSES",
    integer(0, 16_777_216).optional(),
  ),
  SCAN_THREADS: described(
    'scan threads of one process, 1 to 256; unset: one for each core of the machine or the container, divided by PROCESSES',
    integer(1, 256).optional(),
  ),
  SCAN_QUEUE: initially(
    '1024',
    'scans that may wait for a thread, 1 to 100000; the next one gets 503',
    integer(1, 100_000),
  ),
  SCAN_TIMEOUT_MS: initially(
    '60000',
    'milliseconds from the whole content to the verdict, 100 to 600000',
    integer(100, 600_000),
  ),
  // libclamav maps less than 2 GiB, and its limit for one file must be above this one.
  SCAN_MAX_SIZE_MB: initially(
    '200',
    'MB that one content may unpack to, 11 to 1900; over any of these three it is incomplete',
    integer(11, 1_900),
  ),
  SCAN_MAX_FILES: initially('10000', 'files that one content may hold, 1 to 1000000', integer(1, 1_000_000)),
  // libclamav refuses more than 100 by itself.
  SCAN_MAX_RECURSION: initially(
    '17',
    'containers inside each other, the content itself among them, 1 to 100',
    integer(1, 100),
  ),
  SCAN_TEMP_MB: described(
    'MB that all scans together may have unpacked at one time, from 16; unset: twice SCAN_THREADS times SCAN_MAX_SIZE_MB',
    integer(16, 16_777_216).optional(),
  ),
  UPLOAD_TIMEOUT_MS: initially(
    '120000',
    'milliseconds that an upload may take, 1000 to 3600000',
    integer(1_000, 3_600_000),
  ),
  UPLOAD_WAIT_MS: initially(
    '15000',
    'milliseconds that an upload waits for memory before its 503, 0 to 600000',
    integer(0, 600_000),
  ),
  MEMORY_RESERVE_PERCENT: initially(
    '25',
    'percent of UPLOAD_MEMORY_MB, and of DOWNLOAD_MEMORY_MB, that one account leaves to others, 5 to 50',
    integer(5, 50),
  ),
  UPLOAD_MEMORY_MB: described(
    "MB of uploads in memory, from 16; unset: an eighth of the machine's, 64 to 512",
    integer(16, 1_048_576).default(Math.min(512, Math.max(64, Math.floor(totalmem() / MIB / 8)))),
  ),
  URL_ALLOW_NETWORKS: described(
    'networks that URL scans may reach though they are not public: 10.1.0.0/16,fd00::/8',
    list(network, 'must list networks like 10.0.0.0/8,fd00::/8').optional(),
  ),
  URL_PORTS: described(
    'ports that URL scans may use: 80,443,8000-8999; unset: all but those of known services',
    list(portRange, 'must list ports like 80,443,8000-8999').optional(),
  ),
  URL_DNS_SERVERS: described(
    "DNS servers for the hosts of URLs: 192.0.2.53,[2001:db8::53]:5353; unset: the machine's",
    list(dnsServer, 'must list addresses like 192.0.2.53,[2001:db8::53]:5353').optional(),
  ),
  DOWNLOAD_TIMEOUT_MS: initially(
    '30000',
    'milliseconds that a download may take, 1000 to 600000',
    integer(1_000, 600_000),
  ),
  DOWNLOAD_MEMORY_MB: described(
    "MB of downloads in memory, from 16, beside UPLOAD_MEMORY_MB; unset: a sixteenth of the machine's, 128 to 256",
    integer(16, 1_048_576).default(Math.min(256, Math.max(128, Math.floor(totalmem() / MIB / 16)))),
  ),
  DOWNLOADS_PER_USER: initially(
    '8',
    'downloads of one account at a time, 1 to 100000; the next one gets 503',
    integer(1, 100_000),
  ),
  DOWNLOADS: initially('256', 'downloads at a time, 1 to 100000; the next one gets 503', integer(1, 100_000)),
  HTTP_SERVER: initially(
    'auto',
    'uws: uWebSockets.js; node: what Node brings, about half as fast; auto: the first where it can be loaded, otherwise the second',
    z.enum(['auto', 'uws', 'node']),
  ),
  CORE_DUMPS: initially(
    'off',
    'off: a crash leaves no file of the memory, and no debugger of the same user can look into it; on: as the system has it',
    z.enum(['on', 'off']),
  ),
  SANDBOX: initially(
    'auto',
    'auto: scan threads lose network, programs and foreign files where the kernel can (seccomp, Landlock); required: no start without; off',
    z.enum(['auto', 'off', 'required']),
  ),
  ENCRYPTED_ARCHIVES: initially(
    'allow',
    'allow: encrypted members count as looked at; reject: the scan is incomplete',
    z.enum(['allow', 'reject']),
  ),
  PLANS: initially('FREE:50,PRO:1000,BUSINESS:10000', 'plans with their scans per hour', plans),
  STRIPE_SECRET_KEY: described(
    'turns billing on: sk_live_... or sk_test_...; then BASE_URL and the next two are needed',
    z
      .string()
      .regex(/^(sk|rk)_(test|live)_[A-Za-z0-9]+$/, 'must look like sk_live_... or sk_test_...')
      .optional(),
  ),
  STRIPE_WEBHOOK_SECRET: described(
    'whsec_..., of the webhook endpoint BASE_URL/webhooks/stripe',
    z
      .string()
      .regex(/^whsec_[\x21-\x7e]+$/, 'must look like whsec_...')
      .optional(),
  ),
  STRIPE_PRICES: described(
    'prices of plans, PRO:price_1,BUSINESS:price_2; of several prices of a plan the first one is sold',
    prices.optional(),
  ),
  STRIPE_API_BASE: initially(
    'https://api.stripe.com',
    "where Stripe's API is; https, or this machine",
    z.string().refine(isSafeBase, 'must be an https URL without a path'),
  ),
  REGISTRATION: initially(
    'closed',
    'open: anybody may make an account; closed: the operator makes them',
    z.enum(['open', 'closed']),
  ),
  TRUSTED_PROXIES: described(
    'networks of your proxies, 10.0.0.0/8,fd00::/8: the X-Forwarded-For that comes from there says who the client is',
    networks.default([]),
  ),
  JWT_ISSUER: described(
    'issuer whose access tokens are taken besides our own; needs the next two',
    z.string().max(1024).optional(),
  ),
  JWT_JWKS_URL: described(
    'https URL of its keys',
    z
      .url({ protocol: /^https?$/, error: 'must be an https URL' })
      .refine(isHttpsOrLoopback, 'must be an https URL')
      .optional(),
  ),
  JWT_AUDIENCE: described('what its tokens must name as their audience', z.string().max(1024).optional()),
  APP_ENV: initially(
    'PRODUCTION',
    'name of the environment in the history, 1 to 64 characters',
    z.string().min(1).max(64),
  ),
  HISTORY_RETENTION_DAYS: initially(
    '400',
    'days that the history is kept, 1 to 36500; whole months are dropped',
    integer(1, 36_500),
  ),
  HISTORY_JOURNAL_MB: initially(
    '1024',
    'MB of scans on disk that wait for the database; beyond, scans get 503',
    integer(1, 1_048_576),
  ),
  LOG_LEVEL: initially(
    'info',
    'fatal, error, warn, info, debug, trace or silent',
    z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
  ),
  BOOTSTRAP_EMAIL: described(
    'account that the first start on an empty store makes',
    z.email('must be an e-mail address').optional(),
  ),
  BOOTSTRAP_PASSWORD: described(
    'its password, 12 to 128 characters',
    z.string().min(12, 'must have 12 to 128 characters').max(128, 'must have 12 to 128 characters').optional(),
  ),
  BOOTSTRAP_API_KEY: described(
    'its API key, 32 lower-case hexadecimal characters',
    z
      .string()
      .regex(/^[0-9a-f]{32}$/, 'must be 32 lower-case hexadecimal characters')
      .optional(),
  ),
  BOOTSTRAP_PLAN: initially('BUSINESS', 'its plan, one of PLANS', z.string()),
});

export type Variables = z.infer<typeof variables>;

export interface Variable extends Text {
  readonly name: string;
}

/** Every variable, in the order of `--help`. */
export const environment: readonly Variable[] = Object.entries(variables.shape).map(([name, schema]) => {
  const text = texts.get(schema);
  if (text === undefined) throw new Error(`${name} has no text`);
  return { name, ...text };
});
