// What recording a scan costs its client: the same scan route twice in one process, with the journal and without, in turns.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { v7 as uuidv7 } from 'uuid';
import type { Access, AccessControl } from '../../src/admission/access.js';
import { loadSignatures } from '../../src/engine/signatures.js';
import { ScanPool } from '../../src/engine/threads/pool.js';
import { type History, startHistory } from '../../src/history/history.js';
import { createRouter } from '../../src/http/router.js';
import { type Server, startServer } from '../../src/http/server.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { createScanRoutes } from '../../src/scan/http/route.js';
import { UploadMemory } from '../../src/scan/memory/memory.js';
import { createRefunds } from '../../src/scan/scan-facts.js';
import { openPostgres } from '../../src/store/postgres.js';
import { startPostgres } from '../../test/fixtures/postgres.js';
import { compile, loadProgram } from '../compile.js';
import { askForRun, type Measurement } from '../contestants/contestant.js';
import { tableOf, writeFigures } from '../figures.js';
import { type LineProcess, startLineProcess } from '../line-process.js';
import { median } from '../median.js';

const ROUNDS = 60;
/** Short: what else the machine does hits both sides alike. */
const SECONDS = 0.4;
const WARM_UP_SECONDS = 2;
/** One: the time of a scan that waits for nobody. Four: group writes as well. */
const CONNECTIONS = [1, 4];
const CONTENT_BYTES = 1024;
const MIB = 1024 * 1024;

const { figures } = new Command('node dist/bench/history/recording.js')
  .option('--figures', 'keep the table under docs/figures/, for the documents', false)
  .parse()
  .opts<{ figures: boolean }>();
const userId = uuidv7();
const quota = { limit: 1_000_000, remaining: 1_000_000, resetEpochSeconds: 0 };
/** Authentication is not measured here. */
const admit = async (): Promise<Access> => ({
  outcome: 'admitted',
  userId,
  keyId: null,
  quota,
  refund: async () => quota,
});
const access: AccessControl = {
  withApiKey: admit,
  knownUser: () => null,
  expectedUser: () => null,
  refuse: () => undefined,
  asUser: admit,
};

interface Side {
  readonly server: Server;
  readonly client: LineProcess;
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-recording-'));
const signatures = loadSignatures({
  directories: [ownSignaturesDirectory],
  scanTimeoutMs: 10_000,
});
const pool = new ScanPool({ threads: 1, queueLimit: 100, scanTimeoutMs: 10_000 });
const memory = new UploadMemory({
  budgetBytes: 64 * MIB,
  reserveShare: 0.25,
  waitMs: 10_000,
  ownWaitMs: 10_000,
  use: 'uploads',
});
const database = await startPostgres();
const postgres = await openPostgres({ kind: 'url', url: await database.database() });
const history = await startHistory({
  sql: postgres.sql,
  dataDirectory: folder,
  journalLimitBytes: 1024 * MIB,
  retentionDays: 400,
  log: { info: () => undefined, warn: print, error: print },
});

function print(...texts: unknown[]): void {
  process.stdout.write(`${texts.map((text) => (typeof text === 'string' ? text : JSON.stringify(text))).join(' ')}\n`);
}

async function startSide(record: Pick<History, 'refusal' | 'append'>): Promise<Side> {
  const scans = {
    pool,
    refused: new Set<string>(),
    signatures,
    known: null,
    uploadMemory: memory,
    downloads: {
      fetch: () => Promise.reject(new Error('Nothing is downloaded here')),
      check: () => undefined,
    },
    downloadMemory: memory,
    now: Date.now,
    history: record,
    appEnv: 'BENCH',
    refunds: createRefunds(),
    onEnded: () => undefined,
    traces: null,
  };
  const onSurprise = (_: unknown, error: unknown): void => print('unforeseen', String(error));
  const { withKey } = createScanRoutes({
    ...{ scans, access, aside: memory, once: null, later: null, uploadTimeoutMs: 10_000 },
    onSurprise,
    onRefused: () => undefined,
  });
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    handle: createRouter([withKey], onSurprise),
    onEnd: () => undefined,
  });
  const client = startLineProcess(await compile(loadProgram));
  await client.ask(`http ${server.port} ${'a'.repeat(32)}`);
  const content = join(folder, 'content');
  const list = join(folder, 'list');
  writeFileSync(content, randomBytes(CONTENT_BYTES));
  writeFileSync(list, `${content}\n`);
  await client.ask(`files unique ${list}`);
  return { server, client };
}

async function run({ client }: Side, seconds: number, connections: number): Promise<Measurement> {
  const measured = await askForRun(client, `run ${seconds} ${connections} keep`);
  if (measured.errors > 0) throw new Error(measured.firstError);
  return measured;
}

await signatures.ready();
const without = await startSide({ refusal: () => null, append: (scan) => scan.onRecorded() });
const withJournal = await startSide(history);
// 1 KB, medians of rounds in turns; a difference of at most 50 us is promised.
const columns = ['connections', 'p50 us without the journal', 'with it', 'median of the differences, us'];
const rows: string[][] = [];
for (const connections of CONNECTIONS) {
  const sides = { without, withJournal };
  const p50s: Record<keyof typeof sides, number[]> = { without: [], withJournal: [] };
  await run(without, WARM_UP_SECONDS, connections);
  await run(withJournal, WARM_UP_SECONDS, connections);
  for (let round = 0; round < ROUNDS; round += 1) {
    const order = round % 2 === 0 ? (['without', 'withJournal'] as const) : (['withJournal', 'without'] as const);
    for (const side of order) p50s[side].push((await run(sides[side], SECONDS, connections)).p50Us ?? 0);
  }
  const differences = p50s.withJournal.map((value, round) => value - (p50s.without[round] ?? 0));
  rows.push([connections, median(p50s.without), median(p50s.withJournal), median(differences)].map(String));
}
const command = 'node dist/bench/history/recording.js --figures';
print(tableOf({ command, date: 'now', machine: 'this machine', columns, rows }));
if (figures) writeFigures('recording', { command, columns, rows });
for (const { client, server } of [without, withJournal]) {
  await client.stop();
  await server.stop(1_000);
}
await pool.stop();
await signatures.stop();
await history.stop();
await postgres.close();
await database.stop();
rmSync(folder, { recursive: true, force: true });
