// `npm run bench:last-byte`: how long an answer takes from the last byte of an upload of 10 MB, beside what the engine takes for it.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../src/paths.js';
import { freePort } from '../test/fixtures/free-port.js';
import { whole } from '../test/fixtures/option-values.js';
import { type Server, startServer } from './contestants/sluice.js';
import { makeDatabase } from './database.js';
import { writeFigures } from './figures.js';
import { median } from './median.js';

const BYTES = 10_000_000;
/** What is held back until all else has come in. */
const LAST_BYTES = 1_000;
/** Until the service has taken what is before it. */
const SETTLE_MS = 100;
const WARM_UP_ROUNDS = 20;
const BOUNDARY = 'last-byte';

const { database, rounds, figures } = new Command('npm run bench:last-byte --')
  .description('Uploads 10 MB that no scan has seen, all but the last 1,000 bytes; the time counts from these.')
  .option('--signatures, --database <dir>', 'folder with signatures (default: the project’s own)')
  .option('--rounds <count>', 'uploads', whole, 200)
  .option('--figures', 'writes docs/figures/last-byte.json', false)
  .parse()
  .opts<{ database?: string; rounds: number; figures: boolean }>();

/** Milliseconds that the engine has taken since the start, for contents over 1 MB. */
async function engineMs(adminPort: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  return 1000 * Number(/^sluice_scan_seconds_sum\{size="more"\} (\S+)$/m.exec(text)?.[1] ?? 0);
}

/** From the last bytes to the first of the answer; milliseconds. */
async function upload(socket: Socket, { apiKey }: Server): Promise<number> {
  const opening = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="content.bin"\r\n\r\n`;
  const body = Buffer.concat([Buffer.from(opening), randomBytes(BYTES), Buffer.from(`\r\n--${BOUNDARY}--\r\n`)]);
  const headers = [
    'POST /api/v1/scans HTTP/1.1',
    'Host: 127.0.0.1',
    `X-API-KEY: ${apiKey}`,
    `Content-Type: multipart/form-data; boundary=${BOUNDARY}`,
    `Content-Length: ${body.length}`,
  ];
  socket.write(`${headers.join('\r\n')}\r\n\r\n`);
  await new Promise((written) => socket.write(body.subarray(0, -LAST_BYTES), written));
  await sleep(SETTLE_MS);
  const answer = once(socket, 'data');
  const startedMs = performance.now();
  socket.write(body.subarray(-LAST_BYTES));
  const [bytes]: Buffer[] = await answer;
  const tookMs = performance.now() - startedMs;
  if (!bytes?.includes('"infected":false')) throw new Error(`not clean: ${bytes?.toString()}`);
  return tookMs;
}

async function measure(folder: string): Promise<void> {
  const databaseDirectory = join(folder, 'database');
  await makeDatabase(resolve(database ?? ownSignaturesDirectory), {}, databaseDirectory);
  const adminPort = await freePort();
  const env = { VERDICT_CACHE_MB: '0', ADMIN_PORT: String(adminPort) };
  const server = await startServer({ databaseDirectory, threads: 2, folder }, env);
  const socket = connect({ port: server.port, host: '127.0.0.1', noDelay: true });
  try {
    const whole: number[] = [];
    const engine: number[] = [];
    for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
      const beforeMs = await engineMs(adminPort);
      const tookMs = await upload(socket, server);
      if (round < 0) continue;
      whole.push(tookMs);
      engine.push((await engineMs(adminPort)) - beforeMs);
    }
    show({ 'answer ms': whole, 'engine ms': engine, 'beside it ms': whole.map((ms, at) => ms - (engine[at] ?? 0)) });
  } finally {
    socket.destroy();
    await server.stop();
  }
}

function show(times: Readonly<Record<string, readonly number[]>>): void {
  const rows = Object.entries(times).map(([name, values]) => {
    const sorted = [...values].sort((one, other) => one - other);
    const at = (share: number): number => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
    return [name, ...[median(values), at(0), at(0.9), at(0.99)].map((ms) => ms.toFixed(2))];
  });
  const columns = ['', 'median', 'least', 'p90', 'p99'];
  for (const row of [columns, ...rows]) {
    process.stdout.write(`${row.map((cell, at) => (at === 0 ? cell.padEnd(14) : cell.padStart(8))).join('')}\n`);
  }
  const command = 'npm run bench:last-byte -- --database DIR';
  if (figures) writeFigures('last-byte', { command, columns, rows });
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
try {
  await measure(folder);
} finally {
  await rm(folder, { recursive: true, force: true });
}
