// `npm run bench:public`: what a client of POST /api/v1/scans sees: autocannon uploads files of three sizes to a server that runs, or to one that the bench starts.
import { randomBytes } from 'node:crypto';
import autocannon from 'autocannon';
import { Command } from 'commander';
import { positive, whole } from '../test/fixtures/option-values.js';
import { API_KEY, startServer } from '../test/fixtures/server.js';
import { upload } from '../test/fixtures/upload.js';

const KIB = 1_024;
/** The largest is a tenth of what a file may have by default. */
const SIZES = [
  { name: '1 KB', contentBytes: KIB },
  { name: '100 KB', contentBytes: 100 * KIB },
  { name: '1 MB', contentBytes: KIB * KIB },
];
/** Digits of the number that each content begins with. */
const NUMBER_DIGITS = 16;
/** How often autocannon looks whether it should end. */
const SAMPLE_MS = 100;
const BOUNDARY = 'sluice-bench-public';
const TOO_MANY = 429;

interface Load {
  readonly url: string;
  readonly key: string;
  readonly connections: number;
  readonly seconds: number;
}

/** What was measured with files of one size. */
interface Measured {
  readonly requestsPerSecond: number;
  /** Milliseconds of the answers with 200. */
  readonly times: readonly number[];
  readonly statuses: ReadonlyMap<number, number>;
  /** Connections that broke, and requests without an answer. */
  readonly errors: number;
}

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function quantile(values: readonly number[], share: number): string {
  const value = [...values].sort((a, b) => a - b)[Math.floor(values.length * share)];
  return value === undefined ? '-' : value.toFixed(2);
}

/** No content comes twice, also not in the next run: a server that remembers verdicts has to scan each. */
let contents = Date.now() * 1_000;

/**
 * Forms over one buffer, which autocannon copies: `next` only changes the number in the content, so that a form costs the client little.
 * The content is random, as in the other benches and as compressed files are: one character over and over takes the engine a sixth of
 * the time.
 */
function createForms(contentBytes: number): { next(): Buffer } {
  const head =
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="bench.txt"\r\n` +
    'Content-Type: application/octet-stream\r\n\r\n';
  const body = Buffer.concat([Buffer.from(head), randomBytes(contentBytes), Buffer.from(`\r\n--${BOUNDARY}--\r\n`)]);
  return {
    next() {
      contents += 1;
      body.write(String(contents).padStart(NUMBER_DIGITS, '0'), head.length, 'latin1');
      return body;
    },
  };
}

/** Ends early at the first 429: a refusal is not a scan, and more of them would only be a burden to the server. */
function measure({ url, key, connections, seconds }: Load, contentBytes: number): Promise<Measured> {
  const forms = createForms(contentBytes);
  const times: number[] = [];
  const statuses = new Map<number, number>();
  return new Promise((resolve, reject) => {
    const run = autocannon(
      {
        url: `${url}/api/v1/scans`,
        method: 'POST',
        connections,
        duration: seconds,
        sampleInt: SAMPLE_MS,
        headers: { 'X-API-KEY': key, 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
        requests: [{ setupRequest: (request) => ({ ...request, body: forms.next() }) }],
      },
      (error: Error | null, result) => {
        if (error !== null) return reject(error);
        const { duration, errors } = result;
        resolve({ requestsPerSecond: (statuses.get(200) ?? 0) / duration, times, statuses, errors });
      },
    );
    run.on('response', (_client, status, _bytes, timeMs) => {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 200) times.push(timeMs);
      if (status === TOO_MANY) run.stop();
    });
  });
}

function formatMeasured(name: string, { requestsPerSecond, times, statuses, errors }: Measured): string {
  const counts = [...statuses].map(([status, count]) => `${count} x ${status}`);
  if (errors > 0) counts.push(`${errors} without an answer`);
  return [
    name.padStart(6),
    requestsPerSecond.toFixed(1).padStart(10),
    quantile(times, 0.5).padStart(9),
    quantile(times, 0.99).padStart(9),
    `  ${counts.join(', ')}`,
  ].join(' ');
}

/** One scan before the load: says what is wrong with URL or key, and how many scans the hour has left. */
async function tryOnce({ url, key }: Load): Promise<void> {
  contents += 1;
  const { status, headers, body } = await upload(url, String(contents), { key });
  if (status !== 200) throw new Error(`A single scan was answered with ${status}: ${JSON.stringify(body)}`);
  const [limit, remaining] = ['limit', 'remaining'].map((name) => headers.get(`x-ratelimit-${name}`));
  print(`The key has ${remaining} of ${limit} scans left in this hour.\n`);
}

/** Whether all was answered with 200. */
async function measureAll(load: Load): Promise<boolean> {
  await tryOnce(load);
  print(`${load.connections} connections, ${load.seconds} s each, no content twice`);
  print('  file requests/s    p50 ms    p99 ms   answers');
  let isClean = true;
  for (const { name, contentBytes } of SIZES) {
    const measured = await measure(load, contentBytes);
    print(formatMeasured(name, measured));
    if (measured.errors > 0 || [...measured.statuses.keys()].some((status) => status !== 200)) isClean = false;
    if (measured.statuses.has(TOO_MANY)) {
      print(
        '\n429: the hourly quota of the key is used up, so the bench ended here. The line above is of a shorter time.',
      );
      break;
    }
  }
  return isClean;
}

interface Chosen {
  readonly url?: string;
  readonly key?: string;
  readonly connections: number;
  readonly seconds: number;
}

async function main({ url, key, ...load }: Chosen): Promise<void> {
  if ((url === undefined) !== (key === undefined)) throw new Error('--url and --key go together.');
  if (url !== undefined && key !== undefined) {
    if (!(await measureAll({ ...load, url: url.replace(/\/+$/, ''), key }))) process.exitCode = 1;
    return;
  }
  const server = await startServer({ isSupervised: true, env: { PLANS: 'LARGE:999999999', BOOTSTRAP_PLAN: 'LARGE' } });
  try {
    if (!(await measureAll({ ...load, url: server.url, key: API_KEY }))) process.exitCode = 1;
  } finally {
    await server.stop();
  }
}

await new Command('npm run bench:public --')
  .description('Uploads files of 1 KB, 100 KB and 1 MB to the public route, as a client would, and prints what it saw.')
  .option('--url <url>', 'a server that runs, as http://127.0.0.1:8080 (default: the bench starts one)')
  .option('--key <key>', 'an API key of that server; every request takes a scan of its quota')
  .option('--connections <count>', 'connections, each with one request at a time', whole, 8)
  .option('--seconds <seconds>', 'how long each size is sent', positive, 10)
  .action(main)
  .parseAsync(process.argv);
