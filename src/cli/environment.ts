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
  variable('DATA_DIR', './data', 'folder of the embedded database'),
  variable('DATABASE_URL', null, 'postgres://...; unset: the embedded database under DATA_DIR'),
  variable(
    'SIGNATURES_DIR',
    null,
    "folders with signatures, separated by a colon; unset: those that freshclam fills (/var/lib/clamav), those of `signatures update` (DATA_DIR/signatures), if any, and the project's own",
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
  variable('VERDICT_CACHE_MB', '64', 'MB of verdicts that are remembered, about 4000 each, to 65536; 0: none'),
  variable('SCAN_THREADS', null, 'scan threads, 1 to 256; unset: one for each core'),
  variable('SCAN_QUEUE', '1024', 'scans that may wait for a thread, 1 to 100000; the next one gets 503'),
  variable('SCAN_TIMEOUT_MS', '60000', 'milliseconds from the whole content to the verdict, 100 to 600000'),
  variable(
    'SCAN_MAX_SIZE_MB',
    '200',
    'MB that one content may unpack to, 11 to 1900; over any of these three it is incomplete',
  ),
  variable('SCAN_MAX_FILES', '10000', 'files that one content may hold, 1 to 1000000'),
  variable('SCAN_MAX_RECURSION', '17', 'containers inside each other, the content itself among them, 1 to 100'),
  variable('UPLOAD_TIMEOUT_MS', '120000', 'milliseconds that an upload may take, 1000 to 3600000'),
  variable('UPLOAD_WAIT_MS', '15000', 'milliseconds that an upload waits for memory before its 503, 0 to 600000'),
  variable('UPLOAD_MEMORY_MB', null, "MB of uploads in memory, from 16; unset: an eighth of the machine's, 64 to 512"),
  variable(
    'ENCRYPTED_ARCHIVES',
    'allow',
    'allow: encrypted members count as looked at; reject: the scan is incomplete',
  ),
  variable('PLANS', 'FREE:50,PRO:1000,BUSINESS:10000', 'plans with their scans per hour'),
  variable('APP_ENV', 'PRODUCTION', 'name of the environment in the history, 1 to 64 characters'),
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
