// How the process that answers is (its engine and signatures, threads and queue, memory by owner, stores, journal), and which other processes share its database;
// and newer signatures on an operator's word: `sluice signatures update` as a process of its own, one at a time, and what it has said so far.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { z } from 'zod';
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { mainPath } from '../paths.js';
import type { Sql } from '../store/postgres.js';
import { createRounds } from '../waiting/limiter.js';
import { WireTime, wireTime } from '../wire-text.js';

/** Of what it says, the end is kept. */
const LINES = 20;
const LINE_CHARACTERS = 300;

export const UpdateView = z
  .object({
    state: z.enum(['idle', 'running', 'done', 'failed']).describe('Of the machine that answers'),
    startedAt: WireTime.nullable(),
    endedAt: WireTime.nullable(),
    lines: z.array(z.string()).describe('What it has said lately'),
  })
  .meta({ id: 'SignatureUpdate' });
export type UpdateView = z.infer<typeof UpdateView>;

export type SignatureUpdate = ReturnType<typeof createSignatureUpdate>;

export interface UpdateParts {
  /** Takes what is new over at once. */
  readonly onDone: () => void;
  readonly onChange: (view: UpdateView) => void;
  readonly now: () => number;
  /** The command and what it is given; a test has another one. */
  readonly command?: readonly [string, ...string[]];
}

export function createSignatureUpdate({ onDone, onChange, now, command }: UpdateParts) {
  const [program, ...args] = command ?? [process.execPath, mainPath, 'signatures', 'update'];
  let child: ChildProcess | null = null;
  let view: UpdateView = { state: 'idle', startedAt: null, endedAt: null, lines: [] };

  function set(next: UpdateView): void {
    view = next;
    onChange(view);
  }

  function hear(text: string): void {
    const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== '');
    set({ ...view, lines: [...view.lines, ...lines.map((line) => line.slice(0, LINE_CHARACTERS))].slice(-LINES) });
  }

  function end(state: 'done' | 'failed'): void {
    if (child === null) return;
    child = null;
    set({ ...view, state, endedAt: wireTime(now()) });
    if (state === 'done') onDone();
  }

  return {
    view: () => view,
    /** False: one is running already. */
    start(): boolean {
      if (child !== null) return false;
      set({ state: 'running', startedAt: wireTime(now()), endedAt: null, lines: [] });
      const started = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
      child = started;
      for (const stream of [started.stdout, started.stderr]) stream.setEncoding('utf8').on('data', hear);
      started.on('error', (error) => {
        hear(error.message);
        end('failed');
      });
      started.on('close', (code) => end(code === 0 ? 'done' : 'failed'));
      return true;
    },
    async stop(): Promise<void> {
      const running = child;
      if (running === null) return;
      running.kill('SIGTERM');
      await once(running, 'close').catch(() => undefined);
    },
  };
}

const SEEN_MS = 10_000;
/** After it, a process has missed several times to say that it lives. */
const SILENT = '45 seconds';
/** A process of the same data folder that was killed has a successor by then. */
const REPLACED = '30 seconds';
const FORGOTTEN = '1 hour';
/** No page shows more. */
const NODES_MAX = 200;

const COPIED =
  'another machine has a copy of this DATA_DIR: stop one of them, and remove the folder async there; until then accepted scans can fail';

const NodeView = z
  .object({
    id: z.uuid().describe('Of the data folder, which processes of one machine share'),
    host: z.string(),
    pid: z.int(),
    version: z.string(),
    engine: z.string().nullable().describe('null: it loads, or has failed to'),
    signatures: z.int(),
    builtAt: z.int().nullable().describe('Epoch seconds, of the newest signatures'),
    since: WireTime,
    lastHeard: WireTime,
    isSilent: z.boolean().describe('It has not been heard of for 45 seconds. After an hour it is left out.'),
    answers: z.boolean().describe('It has answered this request'),
  })
  .meta({ id: 'Node' });
type NodeView = z.infer<typeof NodeView>;

/** What of it changes. */
type Serving = Pick<NodeView, 'engine' | 'signatures' | 'builtAt'>;

interface NodeRow extends Omit<NodeView, 'since' | 'lastHeard'> {
  readonly since: Date;
  readonly lastHeard: Date;
}

export type SharedNodes = ReturnType<typeof startNodes>;

/** Says in the database that this process lives, and reads who else does. */
export function startNodes(
  sql: Sql,
  self: Pick<NodeView, 'id' | 'host' | 'pid' | 'version'>,
  serving: () => Serving,
  log: Pick<Log, 'warn'>,
) {
  const processId = randomUUID();
  const startedAt = new Date();
  let others: readonly NodeRow[] = [];
  let isMissed = false;
  let isCopied = false;

  async function say(): Promise<void> {
    const { engine, signatures, builtAt } = serving();
    await sql`
      INSERT INTO nodes (process_id, node_id, host, pid, version, engine, signatures, signatures_built, started_at)
      VALUES (${processId}, ${self.id}, ${self.host}, ${self.pid}, ${self.version}, ${engine}, ${signatures}, ${builtAt}, ${startedAt})
      ON CONFLICT (process_id) DO UPDATE
      SET engine = excluded.engine, signatures = excluded.signatures, signatures_built = excluded.signatures_built, seen_at = now()`;
    await sql`
      DELETE FROM nodes
      WHERE seen_at < now() - ${FORGOTTEN}::interval
        OR (node_id = ${self.id} AND process_id <> ${processId} AND seen_at < now() - ${REPLACED}::interval)`;
    others = await sql<NodeRow[]>`
      SELECT node_id AS id, host, pid, version, engine, signatures, signatures_built::float8 AS "builtAt",
        started_at AS since, seen_at AS "lastHeard", seen_at < now() - ${SILENT}::interval AS "isSilent", false AS answers
      FROM nodes WHERE process_id <> ${processId} ORDER BY host, pid LIMIT ${NODES_MAX}`;
    warnOfCopy();
  }

  /** Each of the two takes the other's accepted scans for its own, without their contents. */
  function warnOfCopy(): void {
    const copy = others.find(
      ({ id, host, lastHeard }) => id === self.id && host !== self.host && lastHeard > startedAt,
    );
    if (copy !== undefined && !isCopied) log.warn({ host: copy.host, pid: copy.pid }, COPIED);
    isCopied = copy !== undefined;
  }

  const rounds = createRounds(SEEN_MS, async () => {
    try {
      await say();
      isMissed = false;
    } catch (error) {
      if (!isMissed) log.warn({ reason: messageOfError(error) }, 'other nodes can not be told of this one');
      isMissed = true;
    }
  });
  void rounds.now();
  return {
    /** This process first, the others as they were read last. */
    list(): NodeView[] {
      const now = wireTime(new Date());
      const own = { ...self, ...serving(), since: wireTime(startedAt), lastHeard: now, isSilent: false, answers: true };
      const views = others.map((row) => ({
        ...row,
        since: wireTime(row.since),
        lastHeard: wireTime(row.lastHeard),
      }));
      return [own, ...views];
    },
    async stop(): Promise<void> {
      await rounds.stop();
      // Who reads later finds it silent, where the database is away.
      await sql`DELETE FROM nodes WHERE process_id = ${processId}`.catch(() => undefined);
    },
  };
}

const lent = z.object({
  lentBytes: z.int(),
  budgetBytes: z.int(),
  accounts: z.int(),
  largestAccountBytes: z.int(),
  waiting: z.int(),
});

export const HealthView = z
  .object({
    process: z.object({
      version: z.string(),
      node: z.string(),
      host: z.string(),
      pid: z.int(),
      processes: z.int().describe('Of this service on this machine'),
      uptimeSeconds: z.int().describe('Since this process was started or restarted'),
    }),
    engine: z.object({
      state: z.enum(['loading', 'ready', 'failed']),
      description: z.string().nullable(),
      signatures: z.int(),
      standing: z.enum(['starter', 'current', 'old', 'other']).nullable(),
      builtAt: z.int().nullable().describe('Epoch seconds, of the newest database'),
      standsInFor: z.string().nullable(),
      problem: z.string().nullable(),
      progress: z.number().nullable().describe('Of a load that runs, 0 to 1'),
    }),
    threads: z.object({
      threads: z.int(),
      running: z.int(),
      standIns: z.int(),
      waiting: z.int(),
      accountsWaiting: z.int(),
      late: z.int(),
      hung: z.int(),
    }),
    memory: z.object({
      residentBytes: z.int(),
      limitBytes: z.int().nullable(),
      heapBytes: z.int(),
      uploads: lent,
      downloads: lent,
      verdictCacheBytes: z.int(),
    }),
    stores: z.object({
      database: z.string().nullable().describe('null: it answers; otherwise what is wrong'),
      isEmbedded: z.boolean(),
      admission: z.string().nullable().describe('null: as it should be; otherwise what is wrong'),
      hasRedis: z.boolean(),
    }),
    journal: z.object({
      rows: z.int(),
      bytes: z.int(),
      oldestSeconds: z.number(),
      damagedFiles: z.int(),
      problem: z.string().nullable(),
    }),
    nodes: z
      .array(NodeView)
      .describe('Processes that share the database: the one that answers first, others as of the last ten seconds'),
    suspects: z.int().describe('Contents that are refused since they crashed the engine'),
    refused: z.array(z.string()).describe('The newest of them, by SHA-256'),
    update: UpdateView,
  })
  .meta({ id: 'Health' });
export type HealthView = z.infer<typeof HealthView>;

export type ReadHealth = () => Promise<Omit<HealthView, 'update'>>;
