// The connections to Postgres of one process. Each is lent to one query or one transaction at a time; others wait in lanes with
// bounds. A connection is never shared, so the driver never has queries of two users in one pipeline.
import { performance } from 'node:perf_hooks';
import type postgres from 'postgres';
import { Unavailable } from '../errors.js';
import { createClock } from '../waiting/deadline.js';
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

export interface LaneLimits {
  /** Connections that the lane may have at one time. */
  readonly connections: number;
  /** Connections that it leaves free for lanes before it. */
  readonly spare: number;
  /** Work that waits for one; the next is refused. */
  readonly waiting: number;
  /** How long work waits for one; unset: as long as a request does. */
  readonly waitMs?: number;
  /** A query without an answer for so long hangs; unset: longer than any statement but those of a migration takes. */
  readonly hangMs?: number;
}

/** Rejects with Failure('unavailable') when too many wait, with NoAnswer when a connection isn't free in time. */
export type Lane = <T>(work: (lent: Lent) => Promise<T>) => Promise<T>;

export interface Connections {
  /** A lane that is made earlier goes before one that is made later. */
  lane(limits: LaneLimits): Lane;
  /** Lets running work end for so long, then ends every connection. Nothing begins after it. */
  close(timeoutSeconds: number): Promise<void>;
}

export interface ConnectionsOptions {
  readonly open: OpenDriver;
  readonly size: number;
}

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

/** One driver from its making to its end. */
interface Session {
  readonly driver: Driver;
  readonly openedAt: number;
  losses: number;
  isDiscarded: boolean;
  /** Called when its connection ends; there may be a next one. */
  onLoss: () => void;
}

interface Queue {
  readonly limits: LaneLimits;
  running: number;
  readonly waiting: ((session: Session) => void)[];
}

export function createConnections({ open, size }: ConnectionsOptions): Connections {
  const queues: Queue[] = [];
  const sessions = startSessions(open, size);
  const { free } = sessions;
  let isClosed = false;
  let onRest: () => void = () => undefined;

  /** Gives free connections to those who wait, as their lanes allow. */
  function serve(): void {
    for (const queue of queues) {
      while (hasRoom(queue) && queue.waiting.length > 0) {
        // The one that was used last: it is connected.
        const session = free.pop();
        if (session === undefined) return;
        queue.running += 1;
        queue.waiting.shift()?.(session);
      }
    }
  }

  function hasRoom({ running, limits }: Queue): boolean {
    return running < limits.connections && free.length > limits.spare;
  }

  async function take(queue: Queue): Promise<Session> {
    if (isClosed) throw new ConnectionLost('The connections are closed');
    const { waiting, limits } = queue;
    const { waitMs = WAIT_MS } = limits;
    if (!hasRoom(queue) && waiting.length >= limits.waiting) {
      throw new Unavailable('storeBusy');
    }
    return await new Promise((resolve, reject) => {
      const clock = createClock(waitMs, () => {
        waiting.splice(waiting.indexOf(begin), 1);
        reject(new NoAnswer(waitMs));
      });
      const begin = (session: Session): void => {
        clock.stop();
        resolve(session);
      };
      clock.start();
      waiting.push(begin);
      serve();
    });
  }

  function giveBack(queue: Queue, session: Session): void {
    queue.running -= 1;
    free.push(isClosed || mayStay(session) ? session : sessions.replace(session));
    if (free.length === size) onRest();
    serve();
  }

  return {
    lane(limits) {
      const queue: Queue = { limits, running: 0, waiting: [] };
      queues.push(queue);
      return async (work) => {
        const session = await take(queue);
        try {
          return await work(lend(session, limits.hangMs ?? HANG_MS));
        } finally {
          giveBack(queue, session);
        }
      };
    },
    async close(timeoutSeconds) {
      isClosed = true;
      if (free.length < size) {
        const rest = new Promise<void>((resolve) => {
          onRest = resolve;
        });
        await endsWithin(rest, timeoutSeconds * 1000);
      }
      await sessions.end();
    },
  };
}

interface Sessions {
  /** Those that nobody uses. */
  readonly free: Session[];
  /** Ends a session, which isn't free; returns a new one in its place. */
  replace(session: Session): Session;
  end(): Promise<void>;
}

function startSessions(open: OpenDriver, size: number): Sessions {
  const free = Array.from({ length: size }, () => startSession(open));
  const all = new Set(free);
  return {
    free,
    replace(session) {
      all.delete(session);
      // Nobody waits for its end: there is nothing left to be saved.
      session.driver.end({ timeout: session.isDiscarded ? 0 : RETIRE_SECONDS }).catch(() => undefined);
      const next = startSession(open);
      all.add(next);
      return next;
    },
    async end() {
      await Promise.all([...all].map(({ driver }) => driver.end({ timeout: 0 })));
    },
  };
}

function startSession(open: OpenDriver): Session {
  const counts = { losses: 0, isDiscarded: false, onLoss: () => undefined };
  const driver = open(() => {
    session.losses += 1;
    session.onLoss();
  });
  const session: Session = Object.assign(counts, { driver, openedAt: performance.now() });
  return session;
}

function mayStay({ isDiscarded, openedAt }: Session): boolean {
  return !isDiscarded && performance.now() - openedAt < LIFETIME_MS;
}

function lend(session: Session, hangMs: number): Lent {
  const discard = (): void => {
    session.isDiscarded = true;
  };
  return {
    driver: session.driver,
    get losses() {
      return session.losses;
    },
    async answerOf(query) {
      if (session.isDiscarded) throw new ConnectionLost('The connection was given up');
      let isAnswered = false;
      // The driver sends a query when its `then` is called.
      const answer = Promise.resolve(query).finally(() => {
        isAnswered = true;
      });
      // A query that is sent in the moment in which its connection ends is never answered by the driver.
      const lost = new Promise<never>((_, reject) => {
        session.onLoss = () => setImmediate(() => reject(new ConnectionLost('The connection ended under a query')));
      });
      try {
        return await within(Promise.race([answer, lost]), hangMs);
      } finally {
        session.onLoss = () => undefined;
        if (!isAnswered) discard();
      }
    },
    discard,
  };
}
