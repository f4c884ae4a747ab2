// `npm run bench:pages`: what page loads of the dashboard cost the scan API. Scans come at a fixed rate, with 50 first visits a second beside them and without, in turns.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { databaseOf } from '../test/fixtures/processes.js';
import { API_KEY, startServer } from '../test/fixtures/server.js';
import { compile } from './compile.js';
import { cpuSeconds } from './cpu.js';
import { writeFigures } from './figures.js';
import { type LineProcess, startLineProcess } from './line-process.js';
import { median } from './median.js';
import { recordFirstVisit } from './pages-visit.js';
import { type ServerTimes, threadTimes } from './thread-times.js';

const steadyProgram = { name: 'steady', sources: ['steady.c'], libraries: ['-lm'] };
const CONTENT_BYTES = 1_024;
const SCAN_THREADS = 2;
const SCAN_CONNECTIONS = 16;
/** Some browsers of six connections each. */
const PAGE_CONNECTIONS = 48;
const FLOOD_SECONDS = 3;

const settings = z.object({
  rounds: z.coerce.number().int().positive(),
  seconds: z.coerce.number().positive(),
  loads: z.coerce.number().positive(),
  load: z.coerce.number().positive().max(1),
  figures: z.boolean(),
});

const finished = z.object({
  answers: z.number(),
  bytes: z.number(),
  errors: z.number(),
  seconds: z.number(),
  p50Us: z.number(),
  p99Us: z.number(),
  cpuSeconds: z.number(),
});
type Finished = z.infer<typeof finished>;

/** Of one round; processor times are shares of one core. */
interface Round {
  readonly scans: Finished;
  readonly pages: Finished | null;
  readonly shares: Readonly<Record<string, number>>;
}

const print = (text: string): void => void process.stdout.write(`${text}\n`);

async function ask(client: LineProcess, command: string): Promise<Finished> {
  const answer = finished.parse(JSON.parse((await client.ask(command)).replace(/^done /, '')));
  if (answer.errors > 0) throw new Error(`${answer.errors} answers were not as they should be`);
  return answer;
}

/** The file that steady.c reads. */
function writeRequests(path: string, requests: readonly Buffer[]): string {
  writeFileSync(path, Buffer.concat(requests.flatMap((bytes) => [Buffer.from(`${bytes.length}\n`), bytes])));
  return path;
}

/** An upload whose content never comes again. */
function scanRequest(port: number): Buffer {
  const content = `@@@@@@@@@@@@@@@@${'x'.repeat(CONTENT_BYTES - 16)}`;
  const form = `--limit\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n${content}\r\n--limit--\r\n`;
  const head = [
    'POST /api/v1/scans HTTP/1.1',
    `Host: 127.0.0.1:${port}`,
    `X-API-KEY: ${API_KEY}`,
    'Content-Type: multipart/form-data; boundary=limit',
    `Content-Length: ${form.length}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${form}`);
}

const command = new Command('npm run bench:pages --')
  .description('Measures scans at a fixed rate, with page loads beside them and without, in turns.')
  .option('--rounds <count>', 'rounds of each kind', '7')
  .option('--seconds <seconds>', 'length of a round', '8')
  .option('--loads <count>', 'page loads a second', '50')
  .option('--load <share>', 'scans a second, as a share of what the server can do', '0.5')
  .option('--figures', 'keep the table under docs/figures/, for the documents', false)
  .parse(process.argv);
const { rounds, seconds, loads, load, figures } = settings.parse(command.opts());

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
const server = await startServer({
  isSupervised: true,
  env: { PLANS: 'LARGE:999999999', BOOTSTRAP_PLAN: 'LARGE', SCAN_THREADS: String(SCAN_THREADS) },
});
const clients: LineProcess[] = [];
try {
  const threads = (): ServerTimes => threadTimes(server.serverPid());
  const visit = await recordFirstVisit(server.url);
  const visitBytes = visit.reduce((sum, { answerBytes }) => sum + answerBytes, 0);
  print(`a first visit asks for ${visit.length} files, ${Math.round(visitBytes / 1024)} KB:`);
  for (const { path, answerBytes } of visit) print(`  ${String(answerBytes).padStart(7)} ${path}`);

  const program = await compile(steadyProgram);
  const start = (name: string, connections: number, requests: readonly Buffer[]): LineProcess => {
    const args = [String(server.port), String(connections), writeRequests(join(folder, name), requests)];
    const client = startLineProcess(program, { args });
    clients.push(client);
    return client;
  };
  const scanner = start('scans', SCAN_CONNECTIONS, [scanRequest(server.port)]);
  const visits = visit.map(({ bytes }) => bytes);
  const loader = start('pages', PAGE_CONNECTIONS, visits);

  async function round(withPages: boolean, rate: number): Promise<Round> {
    const database = databaseOf(server.pid);
    const before: ServerTimes & { readonly database: number } = { ...threads(), database: cpuSeconds(database) };
    const [scans, pages] = await Promise.all([
      ask(scanner, `run ${seconds} ${rate}`),
      withPages ? ask(loader, `run ${seconds} ${loads}`) : null,
    ]);
    const after = { ...threads(), database: cpuSeconds(database) };
    const share = (used: number): number => used / scans.seconds;
    return {
      scans,
      pages,
      shares: {
        'serving thread': share(after.serving - before.serving),
        'scan threads': share(after.scanning - before.scanning),
        'other threads': share(after.others - before.others),
        'embedded database': share(after.database - before.database),
        'client that scans': share(scans.cpuSeconds),
        'client that loads pages': share(pages?.cpuSeconds ?? 0),
      },
    };
  }

  await ask(scanner, `flood ${FLOOD_SECONDS}`);
  const capacity = await ask(scanner, `flood ${FLOOD_SECONDS}`);
  const rate = Math.round((capacity.answers / capacity.seconds) * load);
  print(`capacity ${Math.round(capacity.answers / capacity.seconds)} scans a second; rounds are at ${rate}`);
  await ask(loader, `run 2 ${loads}`);

  const alone: Round[] = [];
  const beside: Round[] = [];
  for (let index = 0; index < rounds; index += 1) {
    // In turns which is first: a machine that slows down slows both.
    const order = index % 2 === 0 ? [false, true] : [true, false];
    for (const withPages of order) (withPages ? beside : alone).push(await round(withPages, rate));
    const [one, other] = [alone.at(-1)?.scans, beside.at(-1)?.scans];
    if (one === undefined || other === undefined) continue;
    print(
      `round ${index + 1}: p99 ${one.p99Us} us without, ${other.p99Us} us with; medians ${one.p50Us} and ${other.p50Us} us`,
    );
  }

  print('\nshares of one core, medians:        without     with');
  for (const name of Object.keys(alone[0]?.shares ?? {})) {
    const [without, together] = [alone, beside].map((some) => median(some.map(({ shares }) => shares[name] ?? 0)));
    print(`  ${name.padEnd(32)}${percent(without)}   ${percent(together)}`);
  }
  const added =
    median(beside.map(({ shares }) => shares['serving thread'] ?? 0)) -
    median(alone.map(({ shares }) => shares['serving thread'] ?? 0));
  print(`  for each file: ${((added / (loads * visit.length)) * 1e6).toFixed(0)} us of the serving thread`);
  const p99 = (some: readonly Round[]): number => median(some.map(({ scans }) => scans.p99Us));
  const p50 = (some: readonly Round[]): number => median(some.map(({ scans }) => scans.p50Us));
  print(
    `\np50 with page loads / without: ${(p50(beside) / p50(alone)).toFixed(2)} (${p50(beside)} and ${p50(alone)} us)`,
  );
  print(
    `p99 with page loads / without: ${(p99(beside) / p99(alone)).toFixed(2)} (${p99(beside)} and ${p99(alone)} us, medians of ${rounds} rounds)`,
  );
  if (figures) {
    const names = Object.keys(alone[0]?.shares ?? {});
    const rowOf = (name: string, some: readonly Round[]): string[] => {
      const shares = names.map((each) => percent(median(some.map((one) => one.shares[each] ?? 0))).trim());
      return [name, (p50(some) / 1000).toFixed(2), (p99(some) / 1000).toFixed(2), ...shares];
    };
    const columns = ['scans', 'p50 ms', 'p99 ms', ...names.map((name) => `${name}, of a core`)];
    const rows = [rowOf('alone', alone), rowOf(`beside ${loads} visits a second`, beside)];
    writeFigures('pages', { command: 'npm run bench:pages -- --figures', columns, rows });
  }
} finally {
  for (const client of clients) await client.stop();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}

function percent(share: number | undefined): string {
  return `${((share ?? 0) * 100).toFixed(1)} %`.padStart(8);
}
