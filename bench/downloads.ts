// `npm run bench:downloads`: what 200 slow downloads at once do to the latency of uploads; rounds with and without in turns, one run.
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, type ClientRequest, request } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { messageOfError } from '../src/error-text.js';
import { ownSignaturesDirectory } from '../src/paths.js';
import { compile, loadProgram } from './compile.js';
import { askForFiles, askForRun, type Measurement } from './contestants/contestant.js';
import { type Server, startServer } from './contestants/sluice.js';
import { makeFileSet } from './files.js';
import { startLineProcess } from './line-process.js';
import { median } from './median.js';
import { scenarios } from './scenarios.js';

/** The promise: upload p99 with them against without. */
const PROMISED_RATIO = 1.5;
/** What an origin declares; 200 of them fit the memory that the server is given below. */
const DECLARED_BYTES = 1024 * 1024;
const PIECE = Buffer.alloc(1024, 'x');
const PIECE_EVERY_MS = 100;
const SETTLE_MS = 60_000;

interface SlowOrigin {
  readonly port: number;
  /** Downloads that get their bytes. */
  readonly open: number;
  stop(): void;
}

/** Every request gets its headers at once, and then 1 KB each tenth of a second: 10 KB/s, 100 s for all of it. */
async function startSlowOrigin(): Promise<SlowOrigin> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    socket.once('data', () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${DECLARED_BYTES}\r\n\r\n`);
      sockets.add(socket);
      // Spread over the interval, as strangers are.
      const timer = setTimeout(() => {
        const every = setInterval(() => socket.write(PIECE), PIECE_EVERY_MS);
        socket.on('close', () => clearInterval(every));
      }, Math.random() * PIECE_EVERY_MS);
      socket.on('close', () => clearTimeout(timer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the origin has no port');
  return {
    port: bound.port,
    get open() {
      return sockets.size;
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** One client with a URL, which waits for its verdict. */
function askForUrl(server: Server, url: string, agent: Agent): ClientRequest {
  const form = `--B\r\nContent-Disposition: form-data; name="url"\r\n\r\n${url}\r\n--B--\r\n`;
  const headers = { 'X-API-KEY': server.apiKey, 'Content-Type': 'multipart/form-data; boundary=B' };
  const asked = request({
    host: '127.0.0.1',
    port: server.port,
    path: '/api/v1/scans',
    method: 'POST',
    headers,
    agent,
  });
  // They are all ended before their answer.
  asked.on('error', () => undefined);
  asked.on('response', (response) => response.resume());
  asked.end(form);
  return asked;
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + SETTLE_MS;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await sleep(20);
  }
}

interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly downloads: number;
  readonly threads: number;
  readonly connections: number;
  readonly size: string;
}

function readOptions(): Options {
  const whole = (text: string): number => Number.parseInt(text, 10);
  const command = new Command('npm run bench:downloads --')
    .option('--rounds <n>', 'pairs of rounds', whole, 6)
    .option('--seconds <n>', 'of a round', whole, 8)
    .option('--downloads <n>', 'slow downloads at once', whole, 200)
    .option('--threads <n>', 'scan threads', whole, 1)
    .option('--connections <n>', 'uploads at once', whole, 2)
    .option('--size <name>', '1KB, 100KB or 10MB', '100KB')
    .parse();
  return command.opts<Options>();
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function shown({ scans, seconds, p50Us = Number.NaN, p99Us = Number.NaN }: Measurement): string {
  return `${(scans / seconds).toFixed(0)} scans/s, p50 ${(p50Us / 1000).toFixed(2)} ms, p99 ${(p99Us / 1000).toFixed(2)} ms`;
}

async function measure(options: Options, folder: string, undo: (() => unknown)[]): Promise<void> {
  const scenario = scenarios.find(({ name }) => name === options.size);
  if (scenario === undefined) throw new Error(`there are no files of ${options.size}`);
  const origin = await startSlowOrigin();
  undo.push(() => origin.stop());
  const setting = { databaseDirectory: ownSignaturesDirectory, threads: options.threads, folder };
  const server = await startServer(setting, {
    URL_ALLOW_NETWORKS: '127.0.0.1/32',
    DOWNLOADS_PER_USER: String(options.downloads),
    DOWNLOAD_MEMORY_MB: String(Math.max(16, 2 * options.downloads)),
    DOWNLOAD_TIMEOUT_MS: '600000',
  });
  undo.push(() => server.stop());
  const client = startLineProcess(await compile(loadProgram));
  undo.push(() => client.stop());
  await client.ask(`http ${server.port} ${server.apiKey}`);
  await askForFiles(client, await makeFileSet(scenario, folder, () => Promise.resolve(() => true)));
  const run = (seconds: number): Promise<Measurement> =>
    askForRun(client, `run ${seconds} ${options.connections} keep`);

  async function besideDownloads(): Promise<Measurement> {
    const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
    const asked = Array.from({ length: options.downloads }, () =>
      askForUrl(server, `http://127.0.0.1:${origin.port}/slow`, agent),
    );
    await until(() => origin.open === options.downloads, 'every download is under way');
    const measured = await run(options.seconds);
    if (origin.open !== options.downloads) throw new Error(`only ${origin.open} downloads lasted for the round`);
    for (const one of asked) one.destroy();
    await until(() => origin.open === 0, 'every download has ended with its client');
    return measured;
  }

  await run(2);
  await besideDownloads();
  const ratios: number[] = [];
  for (let round = 0; round < options.rounds; round += 1) {
    const isFirst = round % 2 === 0;
    const before = isFirst ? await run(options.seconds) : null;
    const beside = await besideDownloads();
    const alone = before ?? (await run(options.seconds));
    for (const one of [alone, beside]) if (one.errors > 0) throw new Error(`an upload failed: ${one.firstError}`);
    ratios.push((beside.p99Us ?? Number.NaN) / (alone.p99Us ?? Number.NaN));
    print(`alone:  ${shown(alone)}`);
    print(`beside: ${shown(beside)}; p99 x ${ratios.at(-1)?.toFixed(2)}`);
  }
  const ratio = median(ratios);
  print(
    `\n${options.downloads} slow downloads, ${options.connections} uploads of ${options.size} at once, ${options.threads} scan threads: ` +
      `upload p99 x ${ratio.toFixed(2)} (median of ${ratios.length} rounds; promised: at most ${PROMISED_RATIO}: ` +
      `${ratio <= PROMISED_RATIO ? 'kept' : 'not kept'})`,
  );
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const undo: (() => unknown)[] = [() => rm(folder, { recursive: true, force: true })];
  const cleanUp = async (): Promise<void> => {
    for (let next = undo.pop(); next !== undefined; next = undo.pop()) await next();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void cleanUp().finally(() => process.exit(130)));
  }
  try {
    await measure(readOptions(), folder, undo);
  } catch (error) {
    process.stderr.write(`bench: ${messageOfError(error)}\n`);
    process.exitCode = 1;
  } finally {
    await cleanUp();
  }
}

await main();
