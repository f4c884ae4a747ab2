// The environment variables of `sluice serve`, as its help shows them; config.ts is what reads them.

export interface Variable {
  readonly name: string;
  /** The text that means the same as leaving it out; null where there is none. */
  readonly default: string | null;
  readonly about: string;
}

function variable(name: string, value: string | null, about: string): Variable {
  return { name, default: value, about };
}

export const environment: readonly Variable[] = [
  variable('PORT', '8080', 'port to listen on; 0 takes a free one'),
  variable('HOST', '127.0.0.1', 'address to listen on (the image sets 0.0.0.0)'),
  variable('BASE_URL', null, 'public http or https URL of the service; unset: as the client addressed it'),
  variable('DATA_DIR', './data', 'folder of the history journal and of the embedded database'),
  variable('DATABASE_URL', null, 'postgres://...; unset: the embedded database under DATA_DIR'),
  variable(
    'DATABASE_USER',
    null,
    'user that the embedded database runs as where root starts Sluice; unset: nobody, or the owner of what is there',
  ),
  variable(
    'REDIS_URL',
    null,
    'redis://... or rediss://..., a comma list of such or redis+cluster://... for a cluster; unset: quota and keys are kept in the process, which is exact for one',
  ),
  variable(
    'ENGINE',
    'auto',
    'auto: ClamAV, and where it or its databases cannot be loaded YARA rules alone, which look at raw content: containers are incomplete; clamav or yara: only that',
  ),
  variable(
    'ENGINE_GATES',
    'off',
    'on: logical signatures are asked only where bytes that they need are found (gates): the same verdicts for less work; off: one engine looks at everything',
  ),
  variable(
    'SIGNATURES_DIR',
    null,
    "folders with signatures and YARA rules, separated by a colon; unset: those that freshclam fills (/var/lib/clamav), those of `signatures update` (DATA_DIR/signatures), if any, and the project's own",
  ),
  variable(
    'SIGNATURES_POLL_SECONDS',
    '30',
    'seconds between two looks for newer signatures, to 86400; 0: on SIGHUP only',
  ),
  variable(
    'SIGNATURES_MIRROR',
    null,
    "URL of a mirror of ClamAV's databases, for `signatures update`; unset: ClamAV's own; none: only SIGNATURES_URLS",
  ),
  variable('SIGNATURES_URLS', null, 'URLs of further database files for `signatures update`, separated by commas'),
  variable(
    'RELOAD',
    'concurrent',
    'concurrent: newer signatures are loaded beside those that serve; frugal: these are freed first, and scans wait',
  ),
  variable(
    'VERDICT_CACHE',
    'shared',
    'whose verdicts are remembered for an account: shared: those of all accounts, and only its own are said to be remembered; account: only its own; off: none',
  ),
  variable(
    'VERDICT_CACHE_MB',
    '64',
    'MB of verdicts that are remembered, about 2000 contents each, to 65536; as much of Redis; 0: none',
  ),
  variable(
    'ADMIN_PORT',
    '9090',
    'port of GET /metrics (Prometheus), on 127.0.0.1 only; 0 takes a free one; with PROCESSES the next ones, too',
  ),
  variable(
    'CONNECTIONS',
    null,
    'connections of one process at a time, 16 to 1000000; unset: what the limit of open files leaves, at most 100000',
  ),
  variable(
    'CONNECTIONS_PER_ADDRESS',
    null,
    'of them those of one address (of IPv6: one /64), 1 to 1000000; unset: a quarter, and with TRUSTED_PROXIES all',
  ),
  variable(
    'PROCESSES',
    '1',
    'server processes on the one port, 1 to 64, each with signatures and threads of its own; above 1 REDIS_URL is needed',
  ),
  variable(
    'MEMORY_LIMIT_MB',
    null,
    "MB of resident memory above which a server process scans no more and is restarted; 0: no bound; unset: 80 % of the machine's or the container's, divided by PROCESSES",
  ),
  variable(
    'SCAN_THREADS',
    null,
    'scan threads of one process, 1 to 256; unset: one for each core, divided by PROCESSES',
  ),
  variable('SCAN_QUEUE', '1024', 'scans that may wait for a thread, 1 to 100000; the next one gets 503'),
  variable('SCAN_TIMEOUT_MS', '60000', 'milliseconds from the whole content to the verdict, 100 to 600000'),
  variable(
    'SCAN_MAX_SIZE_MB',
    '200',
    'MB that one content may unpack to, 11 to 1900; over any of these three it is incomplete',
  ),
  variable('SCAN_MAX_FILES', '10000', 'files that one content may hold, 1 to 1000000'),
  variable('SCAN_MAX_RECURSION', '17', 'containers inside each other, the content itself among them, 1 to 100'),
  variable(
    'SCAN_TEMP_MB',
    null,
    'MB that all scans together may have unpacked at one time, from 16; unset: twice SCAN_THREADS times SCAN_MAX_SIZE_MB',
  ),
  variable('UPLOAD_TIMEOUT_MS', '120000', 'milliseconds that an upload may take, 1000 to 3600000'),
  variable('UPLOAD_WAIT_MS', '15000', 'milliseconds that an upload waits for memory before its 503, 0 to 600000'),
  variable(
    'MEMORY_RESERVE_PERCENT',
    '25',
    'percent of UPLOAD_MEMORY_MB, and of DOWNLOAD_MEMORY_MB, that one account leaves to others, 5 to 50',
  ),
  variable('UPLOAD_MEMORY_MB', null, "MB of uploads in memory, from 16; unset: an eighth of the machine's, 64 to 512"),
  variable(
    'URL_ALLOW_NETWORKS',
    null,
    'networks that URL scans may reach though they are not public: 10.1.0.0/16,fd00::/8',
  ),
  variable('URL_PORTS', null, 'ports that URL scans may use: 80,443,8000-8999; unset: all but those of known services'),
  variable(
    'URL_DNS_SERVERS',
    null,
    "DNS servers for the hosts of URLs: 192.0.2.53,[2001:db8::53]:5353; unset: the machine's",
  ),
  variable('DOWNLOAD_TIMEOUT_MS', '30000', 'milliseconds that a download may take, 1000 to 600000'),
  variable(
    'DOWNLOAD_MEMORY_MB',
    null,
    "MB of downloads in memory, from 16, beside UPLOAD_MEMORY_MB; unset: a sixteenth of the machine's, 128 to 256",
  ),
  variable('DOWNLOADS_PER_USER', '8', 'downloads of one account at a time, 1 to 100000; the next one gets 503'),
  variable('DOWNLOADS', '256', 'downloads at a time, 1 to 100000; the next one gets 503'),
  variable(
    'CORE_DUMPS',
    'off',
    'off: a crash leaves no file of the memory, and no debugger of the same user can look into it; on: as the system has it',
  ),
  variable(
    'SANDBOX',
    'auto',
    'auto: scan threads lose network, programs and foreign files where the kernel can (seccomp, Landlock); required: no start without; off',
  ),
  variable(
    'ENCRYPTED_ARCHIVES',
    'allow',
    'allow: encrypted members count as looked at; reject: the scan is incomplete',
  ),
  variable('PLANS', 'FREE:50,PRO:1000,BUSINESS:10000', 'plans with their scans per hour'),
  variable(
    'STRIPE_SECRET_KEY',
    null,
    'turns billing on: sk_live_... or sk_test_...; then BASE_URL and the next two are needed',
  ),
  variable('STRIPE_WEBHOOK_SECRET', null, 'whsec_..., of the webhook endpoint BASE_URL/webhooks/stripe'),
  variable(
    'STRIPE_PRICES',
    null,
    'prices of plans, PRO:price_1,BUSINESS:price_2; of several prices of a plan the first one is sold',
  ),
  variable('STRIPE_API_BASE', 'https://api.stripe.com', "where Stripe's API is; https, or this machine"),
  variable('REGISTRATION', 'closed', 'open: anybody may make an account; closed: the operator makes them'),
  variable(
    'TRUSTED_PROXIES',
    null,
    'networks of your proxies, 10.0.0.0/8,fd00::/8: the X-Forwarded-For that comes from there says who the client is',
  ),
  variable('JWT_ISSUER', null, 'issuer whose access tokens are taken besides our own; needs the next two'),
  variable('JWT_JWKS_URL', null, 'https URL of its keys'),
  variable('JWT_AUDIENCE', null, 'what its tokens must name as their audience'),
  variable('APP_ENV', 'PRODUCTION', 'name of the environment in the history, 1 to 64 characters'),
  variable('HISTORY_RETENTION_DAYS', '400', 'days that the history is kept, 1 to 36500; whole months are dropped'),
  variable('HISTORY_JOURNAL_MB', '1024', 'MB of scans on disk that wait for the database; beyond, scans get 503'),
  variable('LOG_LEVEL', 'info', 'fatal, error, warn, info, debug, trace or silent'),
  variable('BOOTSTRAP_EMAIL', null, 'account that the first start on an empty store makes'),
  variable('BOOTSTRAP_PASSWORD', null, 'its password, 12 to 128 characters'),
  variable('BOOTSTRAP_API_KEY', null, 'its API key, 32 lower-case hexadecimal characters'),
  variable('BOOTSTRAP_PLAN', 'BUSINESS', 'its plan, one of PLANS'),
];

const WIDTH = 100;
const INDENT = '      ';

/** The table as text; `environmentHelp(['SCAN_THREADS'])` only shows that variable. */
export function environmentHelp(names: readonly string[] = environment.map(({ name }) => name)): string {
  const shown = environment.filter(({ name }) => names.includes(name));
  const rows = shown.map((row) => `  ${row.name}${row.default === null ? '' : `=${row.default}`}\n${wrap(row.about)}`);
  return ['Environment variables, with their defaults:', ...rows].join('\n');
}

function wrap(text: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && INDENT.length + line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].map((each) => INDENT + each).join('\n');
}
