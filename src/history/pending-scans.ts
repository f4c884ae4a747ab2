// Scans that were accepted and have not ended, in Postgres: what any node can say of them, and what becomes of those of a node that is gone; and
// requests that wait for them, with one question to the database for all, a few times a second.
import type { ScanPolicy } from '../engine/verdict.js';
import { Unavailable } from '../errors.js';
import type { Fragment, Sql, SqlOf } from '../store/postgres.js';
import { guarded } from '../store/store-error.js';
import { Shares } from '../waiting/turns.js';
import { lowestIdAt, type ScanRow } from './scan-row.js';
import type { Filters } from './stats.js';

/** As its row will be. What is of its content is null for a URL. */
export interface PendingScan
  extends Pick<ScanRow, 'id' | 'userId' | 'keyId' | 'filename' | 'sizeBytes' | 'sha256' | 'metadata' | 'url' | 'env'> {
  /** By what it is read. */
  readonly policy: ScanPolicy;
  /** The hour that its unit is of, in epoch seconds. */
  readonly windowStartSeconds: number;
}

interface PendingList extends Pick<Filters, 'sha256' | 'fromMs' | 'beforeMs'> {
  readonly after: string | null;
  readonly limit: number;
}

export interface SeenPendingScan extends PendingScan {
  readonly state: 'queued' | 'running';
}

export type PendingScans = ReturnType<typeof createPendingScans>;

/** A node says so often that it lives. */
export const NODE_SEEN_MS = 30_000;
/** What a node has accepted that was not seen for so long is given up. It may be away for an upgrade or a reboot, and scans everything then. */
const NODE_GONE = '1 hour';
/** Of them at a time. */
const GONE_ROWS = 500;

/** `sql`: for what nobody waits for with a request. */
export function createPendingScans(sql: Sql, sqlOf: SqlOf) {
  const columns = sql`
    id, user_id AS "userId", key_id AS "keyId", state, filename, size_bytes AS "sizeBytes", encode(sha256, 'hex') AS sha256, metadata, url, env,
    window_start::float8 AS "windowStartSeconds", json_build_object('encrypted', encrypted, 'heuristics', heuristics) AS policy`;

  return {
    /** Throws Failure `unavailable`: then it may be there or not. */
    async add(nodeId: string, scan: PendingScan): Promise<void> {
      const { id, userId, keyId, filename, sizeBytes, sha256, metadata, url, env, windowStartSeconds, policy } = scan;
      await sqlOf(userId)`
        INSERT INTO pending_scans
          (id, user_id, key_id, node_id, filename, size_bytes, sha256, metadata, url, env, window_start, encrypted, heuristics)
        VALUES (${id}, ${userId}, ${keyId}, ${nodeId}, ${filename}, ${sizeBytes}, decode(${sha256}::text, 'hex'), ${metadata},
          ${url}, ${env}, ${windowStartSeconds}, ${policy.encrypted}, ${policy.heuristics})`;
    },
    /** It was not accepted. */
    async remove(id: string): Promise<void> {
      await sql`DELETE FROM pending_scans WHERE id = ${id}`;
    },
    async began(id: string): Promise<void> {
      await sql`UPDATE pending_scans SET state = 'running' WHERE id = ${id}`;
    },
    /** Null: the user has none of that id, or it has ended. */
    async find(userId: string, id: string): Promise<SeenPendingScan | null> {
      const [scan] = await guarded(
        sqlOf(userId)<SeenPendingScan[]>`
          SELECT ${columns} FROM pending_scans WHERE id = ${id}::uuid AND user_id = ${userId}`,
      );
      return scan ?? null;
    },
    /** Some of the user's, the newest first, from the one behind `after` on. */
    async list(
      userId: string,
      { sha256, fromMs, beforeMs, after, limit }: PendingList,
    ): Promise<readonly SeenPendingScan[]> {
      return await guarded(
        sqlOf(userId)<SeenPendingScan[]>`
          SELECT ${columns} FROM pending_scans
          WHERE user_id = ${userId}
            ${sha256 === undefined ? sql`` : sql`AND sha256 = decode(${sha256}, 'hex')`}
            ${fromMs === undefined ? sql`` : sql`AND id >= ${lowestIdAt(fromMs)}::uuid`}
            ${beforeMs === undefined ? sql`` : sql`AND id < ${lowestIdAt(beforeMs)}::uuid`}
            ${after === null ? sql`` : sql`AND id < ${after}::uuid`}
          ORDER BY id DESC LIMIT ${limit}`,
      );
    },
    /** Those of them that have not ended. */
    async left(ids: readonly string[]): Promise<readonly SeenPendingScan[]> {
      return await sql<SeenPendingScan[]>`SELECT ${columns} FROM pending_scans WHERE id = ANY(${[...ids]}::uuid[])`;
    },
    /** True: this call is the one that gives its unit back. */
    async claimReturn(id: string): Promise<boolean> {
      const claimed = await sql`UPDATE pending_scans SET is_returned = true WHERE id = ${id} AND NOT is_returned`;
      return claimed.count > 0;
    },
    ...ofNodes(sql, columns),
  };
}

function ofNodes(sql: Sql, columns: Fragment) {
  return {
    async nodeSeen(nodeId: string): Promise<void> {
      await sql`
        INSERT INTO pending_nodes (node_id) VALUES (${nodeId}) ON CONFLICT (node_id) DO UPDATE SET seen_at = now()`;
    },
    /** Some of the node's that were admitted before that time. */
    async ofNode(nodeId: string, beforeMs: number): Promise<readonly SeenPendingScan[]> {
      return await sql<SeenPendingScan[]>`
        SELECT ${columns} FROM pending_scans WHERE node_id = ${nodeId} AND id < ${lowestIdAt(beforeMs)}::uuid
        ORDER BY id LIMIT ${GONE_ROWS}`;
    },
    /** Nodes that were not seen for long. */
    async goneNodes(): Promise<readonly string[]> {
      const nodes = await sql<{ node_id: string }[]>`
        SELECT node_id FROM pending_nodes WHERE seen_at < now() - ${NODE_GONE}::interval`;
      return nodes.map((node) => node.node_id);
    },
    /** Some of the scans of those of the nodes that are gone. Such a node is forgotten with its last one. */
    async ofGoneNodes(nodeIds: readonly string[]): Promise<readonly SeenPendingScan[]> {
      const areGone = sql`node_id = ANY(${[...nodeIds]}::uuid[]) AND seen_at < now() - ${NODE_GONE}::interval`;
      const scans = await sql<SeenPendingScan[]>`
        SELECT ${columns} FROM pending_scans WHERE node_id IN (SELECT node_id FROM pending_nodes WHERE ${areGone})
        ORDER BY id LIMIT ${GONE_ROWS}`;
      if (scans.length === 0) await sql`DELETE FROM pending_nodes WHERE ${areGone}`;
      return scans;
    },
  };
}

/** As the history has it. */
export function rowWithoutVerdict(scan: PendingScan, status: number, error: string | null, nowMs: number): ScanRow {
  const { id, userId, keyId, filename, sizeBytes, sha256, metadata, url, env } = scan;
  return {
    ...{ id, userId, keyId, filename, sizeBytes, sha256, metadata, url, env, status, error },
    durationMs: 0,
    virusName: null,
    engine: null,
    signatures: null,
    detectedType: null,
    notices: [],
    lastUpdateMs: nowMs,
    protocol: 'http',
    wasPending: true,
  };
}

export type ScanWaits = ReturnType<typeof createScanWaits>;

const ASK_MS = 250;
/** Of one account; and of all, a few hundred bytes each beside the request. */
const WAITS_PER_USER = 64;
const WAITS_MAX = 5_000;

export function createScanWaits(left: PendingScans['left'], onProblem: (error: unknown) => void) {
  const waiting = new Map<string, Set<() => void>>();
  const shares = new Shares(WAITS_PER_USER);
  let isAsking = false;

  /** It has ended, here. */
  function ended(id: string): void {
    for (const resolve of waiting.get(id) ?? []) resolve();
  }

  async function ask(): Promise<void> {
    if (waiting.size === 0 || isAsking) return;
    isAsking = true;
    const asked = [...waiting.keys()];
    try {
      const running = new Set((await left(asked)).map(({ id }) => id));
      for (const id of asked) if (!running.has(id)) ended(id);
    } catch (error) {
      onProblem(error);
    } finally {
      isAsking = false;
    }
  }

  const asking = setInterval(() => void ask(), ASK_MS).unref();

  return {
    /** Resolves when the scan may have ended, or after so long, or when the client has left. Resolves at once for an account that waits for too many. */
    async until(userId: string, id: string, waitMs: number, signal: AbortSignal): Promise<void> {
      if (shares.all >= WAITS_MAX) throw new Unavailable('waitsBusy');
      if (signal.aborted || !shares.take(userId)) return;
      await new Promise<void>((resolve) => {
        const resolves = waiting.get(id) ?? new Set();
        const end = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          resolves.delete(end);
          if (resolves.size === 0) waiting.delete(id);
          resolve();
        };
        const timer = setTimeout(end, waitMs);
        signal.addEventListener('abort', end);
        waiting.set(id, resolves.add(end));
      });
      shares.giveBack(userId);
    },
    ended,
    stop: () => clearInterval(asking),
  };
}
