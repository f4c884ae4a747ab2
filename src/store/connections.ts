// The connections to Postgres of one process. Each is lent to one query or one transaction at a time; others wait in lanes with
// bounds. A connection is never shared, so the driver never has queries of two users in one pipeline.
import { performance } from 'node:perf_hooks';
import type postgres from 'postgres';
import { Unavailable } from '../errors.js';
import { type TurnLimits, Turns } from '../waiting/turns.js';
import { endsWithin, NoAnswer, within } from '../waiting/within.js';

/** The driver with a single connection. */
export type Driver = postgres.Sql;

/** Makes a driver that connects when it is first used; it tells each time when its connection has ended. */
export type OpenDriver = (onLoss: () => void) => Driver;

export interface Lent {
  readonly driver: Driver;
  /** How often its connection has ended: a transaction whose number changes is gone. */
  readonly losses: number;
  /** Waits for a query; one that hangs takes the connection with it. */
  answerOf<T>(query: PromiseLike<T>): Promise<T>;
  /** Nobody gets this connection any more: what it is in the middle of is uncertain. */
  discard(): void;
}

interface LaneLimits extends Partial<TurnLimits> {
  /** Connections that the lane may have at one time. */
  readonly running: number;
  /** Connections that it leaves free for lanes before it. */
  readonly spare: number;
  /** Work that waits for one; the next is refused. */
  readonly waiting: number;
  /** A query without an answer for so long hangs; unset: longer than any statement but those of a migration takes. */
  readonly hangMs?: number;
}

/**
 * For the work of one party: an account, or what else shares the lane with others; they go by the time that each has used. Rejects with
 * Failure('unavailable') when too many wait, with NoAnswer when a connection isn't free in time.
 */
export type Lane = <T>(who: string, work: (lent: Lent) => Promise<T>) => Promise<T>;

export type PostgresConnections = ReturnType<typeof createConnections>;

/** The connection has ended, or was given up: what was sent in its transaction is undone. */
export class ConnectionLost extends Error {
  readonly code = 'CONNECTION_LOST';
}

/** The client has its 503 by then. */
const WAIT_MS = 5_000;
/** The kernel takes a quarter of an hour to find out that the other end is gone. */
const HANG_MS = 120_000;
/** Then a connection is made anew: a server behind a name may have moved. */
const LIFETIME_MS = 45 * 60_000;
const RETIRE_SECONDS = 5;

interface OpenConnection {
  readonly driver: Driver;
  readonly openedAt: number;
  losses: number;
  isDiscarded: boolean;
  /** Called when its connection ends; there may be a next one. */
  onLoss: () => void;
}

export function createConnections({ open, size }: { readonly open: OpenDriver; readonly size: number }) {
  const lanes: Turns[] = [];
  const all = openAll(open, size);
  const { free } = all;
  let isClosed = false;
  let onRest: () => void = () => undefined;

  /** Gives free connections to those who wait, as their lanes allow. */
  function serve(): void {
    for (const lane of lanes) lane.serve();
  }

  /** The one that was used last: it is connected. */
  function take(): OpenConnection {
    const connection = free.pop();
    if (connection === undefined) throw new Error('A turn has a connection');
    return connection;
  }

  function giveBack(connection: OpenConnection): void {
    free.push(isClosed || mayStay(connection) ? connection : all.replace(connection));
    if (free.length === size) onRest();
  }

  return {
    /** A lane that is made earlier goes before one that is made later. */
    lane({ spare, hangMs = HANG_MS, ...limits }: LaneLimits): Lane {
      const { running, waiting, runningEach = running, waitingEach = waiting, waitMs = WAIT_MS } = limits;
      const lane = new Turns({
        ...{ running, runningEach, waiting, waitingEach, waitMs },
        full: () => new Unavailable('storeBusy'),
        late: () => new NoAnswer(waitMs),
        hasRoom: () => free.length > spare,
        onEnd: serve,
      });
      lanes.push(lane);
      return async (who, work) => {
        if (isClosed) throw new ConnectionLost('The connections are closed');
        return await lane.run([who], async () => {
          const connection = take();
          try {
            return await work(lend(connection, hangMs));
          } finally {
            giveBack(connection);
          }
        });
      };
    },
    /** Lets running work end for so long, then ends every connection. Nothing begins after it. */
    async close(timeoutSeconds: number): Promise<void> {
      isClosed = true;
      if (free.length < size) {
        const rest = new Promise<void>((resolve) => {
          onRest = resolve;
        });
        await endsWithin(rest, timeoutSeconds * 1000);
      }
      await all.end();
    },
  };
}

function openAll(open: OpenDriver, size: number) {
  const free = Array.from({ length: size }, () => openOne(open));
  const all = new Set(free);
  return {
    free,
    /** Ends one, which isn't free; returns a new one in its place. */
    replace(connection: OpenConnection): OpenConnection {
      all.delete(connection);
      // Nobody waits for its end: there is nothing left to be saved.
      connection.driver.end({ timeout: connection.isDiscarded ? 0 : RETIRE_SECONDS }).catch(() => undefined);
      const next = openOne(open);
      all.add(next);
      return next;
    },
    async end(): Promise<void> {
      await Promise.all([...all].map(({ driver }) => driver.end({ timeout: 0 })));
    },
  };
}

function openOne(open: OpenDriver): OpenConnection {
  const counts = { losses: 0, isDiscarded: false, onLoss: () => undefined };
  const driver = open(() => {
    connection.losses += 1;
    connection.onLoss();
  });
  const connection: OpenConnection = Object.assign(counts, { driver, openedAt: performance.now() });
  return connection;
}

function mayStay({ isDiscarded, openedAt }: OpenConnection): boolean {
  return !isDiscarded && performance.now() - openedAt < LIFETIME_MS;
}

function lend(connection: OpenConnection, hangMs: number): Lent {
  const discard = (): void => {
    connection.isDiscarded = true;
  };
  return {
    driver: connection.driver,
    get losses() {
      return connection.losses;
    },
    async answerOf(query) {
      if (connection.isDiscarded) throw new ConnectionLost('The connection was given up');
      let isAnswered = false;
      // The driver sends a query when its `then` is called.
      const answer = Promise.resolve(query).finally(() => {
        isAnswered = true;
      });
      // A query that is sent in the moment in which its connection ends is never answered by the driver.
      const lost = new Promise<never>((_, reject) => {
        connection.onLoss = () => setImmediate(() => reject(new ConnectionLost('The connection ended under a query')));
      });
      try {
        return await within(Promise.race([answer, lost]), hangMs);
      } finally {
        connection.onLoss = () => undefined;
        if (!isAnswered) discard();
      }
    },
    discard,
  };
}
