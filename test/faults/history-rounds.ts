// Rounds of load and disaster: the server killed at a random moment, its database stopped or crashed, and what clients were told counted after.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startHistory } from '../../src/history/history.js';
import { startEmbedded } from '../../src/store/embedded.js';
import { openPostgres, type Sql } from '../../src/store/postgres.js';
import { type PostgresServer, startPostgres } from '../fixtures/postgres.js';
import { eicar } from '../fixtures/samples.js';
import { startServer, type TestServer } from '../fixtures/server.js';
import { upload } from '../fixtures/upload.js';

export interface RoundsOptions {
  readonly store: 'postgres' | 'embedded';
  readonly rounds: number;
  /** From 0 to 1: where the moments and the faults come from. */
  readonly random: () => number;
  readonly onRound: (text: string) => void;
}

export interface RoundsReport {
  /** Answers with a scan id that clients have received. */
  readonly answered: number;
  readonly rows: number;
  readonly kills: number;
  readonly pauses: number;
  readonly restarts: number;
  /** Empty when everything holds. */
  readonly problems: readonly string[];
}

const CLIENTS = 8;
/** Under load before the fault. */
const LOAD_MAX_MS = 1_200;
const OUTAGE_MAX_MS = 2_500;
/** The embedded store can only be looked into while no server has it. */
const EMBEDDED_CHECK_ROUNDS = 5;

/** What the answers said, by scan id. */
type Answers = Map<string, number>;

export async function runRounds(options: RoundsOptions): Promise<RoundsReport> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-faults-'));
  const postgres = options.store === 'postgres' ? await startPostgres() : null;
  const url = (await postgres?.database()) ?? null;
  const counts = { kills: 0, pauses: 0, restarts: 0 };
  const answers: Answers = new Map();
  const problems: string[] = [];
  let rows = 0;
  const check = async (sql: Sql, round: number): Promise<void> => {
    rows = await verify(sql, answers, (problem) => problems.push(`round ${round}: ${problem}`));
  };
  try {
    for (let round = 1; round <= options.rounds; round += 1) {
      const server = await startServer({ directory, env: { PLANS: 'BUSINESS:900000000', ...databaseOf(url) } });
      if (url !== null) {
        const store = await openPostgres({ kind: 'url', url });
        await drained(server);
        await check(store.sql, round);
        await store.close();
      }
      const load = startLoad(server, answers);
      await load.begun;
      await delay(options.random() * LOAD_MAX_MS);
      const fault = postgres === null ? 'kill' : await disturb(postgres, options.random, counts);
      await kill(server);
      counts.kills += 1;
      postgres?.resume();
      await load.stop();
      options.onRound(`round ${round}: ${fault}, ${answers.size} answered, ${rows} rows, ${problems.length} problems`);
      const isCheck = url === null && (round % EMBEDDED_CHECK_ROUNDS === 0 || round === options.rounds);
      if (isCheck) await lookInto(join(directory, 'data'), (sql) => check(sql, round));
    }
    if (url !== null) await replay(url, join(directory, 'data'), (sql) => check(sql, options.rounds));
  } finally {
    await postgres?.stop();
    rmSync(directory, { recursive: true, force: true });
  }
  return { answered: answers.size, rows, ...counts, problems };
}

function databaseOf(url: string | null): Record<string, string> {
  return url === null ? {} : { DATABASE_URL: url, BOOTSTRAP_EMAIL: 'faults@example.com' };
}

/** In two of five rounds the database fails before the server is killed: for seconds, or by a crash of its own. */
async function disturb(
  postgres: PostgresServer,
  random: () => number,
  counts: { pauses: number; restarts: number },
): Promise<string> {
  const choice = random();
  const outageMs = random() * OUTAGE_MAX_MS;
  if (choice < 0.2) {
    counts.pauses += 1;
    postgres.pause();
    await delay(outageMs);
    // In half of them it comes back while the server lives.
    if (random() < 0.5) return 'killed while the database hung';
    postgres.resume();
    await delay(random() * LOAD_MAX_MS);
    return 'the database hung, then killed';
  }
  if (choice < 0.4) {
    counts.restarts += 1;
    await postgres.restart();
    await delay(random() * outageMs);
    return 'the database crashed, then killed';
  }
  return 'killed';
}

/** Both processes, the server first: it is given no moment to notice that its supervisor is gone. */
async function kill(server: TestServer): Promise<void> {
  const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8').trim().split(' ');
  for (const child of children.filter(Boolean)) process.kill(Number(child), 'SIGKILL');
  await server.stop('SIGKILL');
}

interface Load {
  /** Resolves with the first answer. */
  readonly begun: Promise<void>;
  /** Resolves when every client has noticed that the server is gone. */
  stop(): Promise<void>;
}

function startLoad(server: TestServer, answers: Answers): Load {
  const contents: (Buffer | string)[] = ['hello', eicar(), 'x'.repeat(5_000), ''];
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const client = async (number: number): Promise<void> => {
    for (let sent = number; ; sent += 1) {
      try {
        const filename = `${number}-${sent}.txt`;
        const { status, headers } = await upload(server.url, contents[sent % contents.length] ?? '', { filename });
        const id = headers.get('x-scan-id');
        if (id !== null) answers.set(id, status);
        begin();
      } catch {
        return; // The server is dead, and with it this connection.
      }
    }
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return { begun, stop: async () => void (await clients) };
}

/** Resolves when nothing of the rounds before waits in the journal. */
async function drained(server: TestServer): Promise<void> {
  for (;;) {
    const response = await fetch(`${server.url}/readyz`);
    const { history } = Object(await response.json());
    if (history.waitingRows === 0) return;
  }
}

/** Opens the store of a dead server as the next one would, replays its journal, and looks. */
async function lookInto(dataDirectory: string, look: (sql: Sql) => Promise<void>): Promise<void> {
  const { socketDirectory, stop } = await startEmbedded(dataDirectory);
  const store = await openPostgres({ kind: 'embedded', socketDirectory });
  await replayed(store.sql, dataDirectory);
  await look(store.sql);
  await store.close();
  await stop();
}

async function replay(url: string, dataDirectory: string, look: (sql: Sql) => Promise<void>): Promise<void> {
  const store = await openPostgres({ kind: 'url', url });
  await replayed(store.sql, dataDirectory);
  await look(store.sql);
  await store.close();
}

async function replayed(sql: Sql, dataDirectory: string): Promise<void> {
  const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const options = { sql, dataDirectory, journalLimitBytes: 1e9, retentionDays: 400, log: silent };
  const history = await startHistory(options);
  while (history.state().rows > 0) await delay(10);
  await history.stop();
}

/** Every answer has one row with its status, and the counts are those of the rows. Returns how many rows there are. */
async function verify(sql: Sql, answers: Answers, onProblem: (problem: string) => void): Promise<number> {
  const stored = new Map<string, number>();
  for (const { id, status } of await sql<{ id: string; status: number }[]>`SELECT id, status FROM scans`) {
    if (stored.has(id)) onProblem(`${id} has two rows`);
    stored.set(id, status);
  }
  for (const [id, status] of answers) {
    const found = stored.get(id);
    if (found === undefined) onProblem(`${id} was answered ${status} and has no row`);
    else if (found !== status) onProblem(`${id} was answered ${status} and its row says ${found}`);
  }
  const wrong = await sql`
    SELECT day FROM (
      SELECT user_id, (creation_date AT TIME ZONE 'UTC')::date AS day, status, infected, count(*) AS scans
      FROM scans GROUP BY 1, 2, 3, 4
    ) AS counted FULL JOIN scan_days USING (user_id, day, status, infected)
    WHERE counted.scans IS DISTINCT FROM scan_days.scans`;
  if (wrong.length > 0) onProblem(`${wrong.length} counts are not those of the rows`);
  return stored.size;
}
