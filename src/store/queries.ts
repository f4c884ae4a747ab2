// Queries as the rooms write them: tagged templates, each over a connection of its own for as long as it takes, and transactions; and the connections of
// one process. Each is lent to one query or one transaction at a time, and never shared, so the driver never has queries of two users in one
// pipeline; others wait in lanes with bounds.
//
// A transaction is on a connection that is its own from before BEGIN until after its end, whatever happens in between. postgres.js 3.4.9 has
// `sql.begin` for this. It sends BEGIN over a connection that others use, and reserves it only if that neither fills the pipeline nor the
// socket; otherwise the transaction stays open on a connection that nobody holds, and others' queries end up in it
// (https://github.com/porsager/postgres/issues/1189). Its `sql.reserve` loses a connection for each time that it could not connect, and a
// query on a reserved connection that has ended in the meantime is an exception that nobody can catch.

import { performance } from 'node:perf_hooks';
import type postgres from 'postgres';
import { codeOf, isOneTooMany } from '../error-text.js';
import { Unavailable } from '../errors.js';
import { FairTurns, type TurnLimits } from '../waiting/turns.js';
import { endsWithin, later, NoAnswer, within } from '../waiting/within.js';

/** The driver with a single connection. */
export type Driver = postgres.Sql;

/** Makes a driver that connects when it is first used; it tells each time when its connection has ended. */
export type OpenDriver = (onLoss: () => void) => Driver;

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
export type QueryLane = <T>(who: string, work: (lent: Lent) => Promise<T>) => Promise<T>;

export type PostgresConnections = ReturnType<typeof createConnections>;

/** The connection has ended, or was given up: what was sent in its transaction is undone. */
class ConnectionLost extends Error {
  readonly code = 'CONNECTION_LOST';
}

/** The client has its 503 by then. */
const WAIT_MS = 5_000;
/** The kernel takes a quarter of an hour to find out that the other end is gone. */
const HANG_MS = 120_000;
/** Then a connection is made anew: a server behind a name may have moved. */
const LIFETIME_MS = 45 * 60_000;
const RETIRE_SECONDS = 5;
/** Where Postgres takes no more of us, with as few of them it goes on: one for what comes first, one for requests, and one for what comes after them. */
const CONNECTIONS_LEAST = 3;
/** Then one that was refused is tried again. */
const REFUSED_MS = 10_000;

interface OpenConnection {
  readonly driver: Driver;
  readonly openedAt: number;
  losses: number;
  isDiscarded: boolean;
  /** Called when its connection ends; there may be a next one. */
  onLoss: () => void;
}

interface ConnectionsOptions {
  readonly open: OpenDriver;
  readonly size: number;
  /** Hears why Postgres takes no further connection, and how many there are without it; default: nobody. */
  readonly onRefused?: (error: unknown, left: number) => void;
  /** Hears that a pooler has others behind our connections: those that are opened from then on take their place. Default: nobody. */
  readonly onLostStatement?: (error: unknown) => void;
}

/** A statement that we have prepared isn't there, or one of another connection is (PostgreSQL 18, Appendix A). */
const LOST_STATEMENT = new Set(['26000', '42P05']);

export function createConnections(options: ConnectionsOptions) {
  const lanes: FairTurns[] = [];
  /** Gives free connections to those who wait, as their lanes allow. */
  function serve(): void {
    for (const lane of lanes) lane.serve();
  }
  const loans = createLoans(options, serve);
  const { free, attempt } = loans;

  return {
    /** A lane that is made earlier goes before one that is made later. */
    lane({ spare, hangMs = HANG_MS, ...limits }: LaneLimits): QueryLane {
      const { running, waiting, runningEach = running, waitingEach = waiting, waitMs = WAIT_MS } = limits;
      const lane = new FairTurns({
        ...{ running, runningEach, waiting, waitingEach, waitMs },
        full: () => new Unavailable('storeBusy'),
        late: () => new NoAnswer(waitMs),
        hasRoom: () => free.length > spare,
        onEnd: serve,
      });
      lanes.push(lane);
      return async (who, work) => {
        for (;;) {
          if (loans.isClosed) throw new ConnectionLost('The connections are closed');
          const done = await lane.run([who], () => attempt(work, hangMs));
          if (done !== null) return done.value;
        }
      };
    },
    close: loans.close,
  };
}

/** `serve`: one more is free. */
function createLoans(options: ConnectionsOptions, serve: () => void) {
  const { open, size, onRefused = () => undefined, onLostStatement = () => undefined } = options;
  const all = openAll(open, size);
  const { free } = all;
  /** Those that Postgres has refused lately: others do their work. */
  let refused = 0;
  let isClosed = false;
  let onRest: () => void = () => undefined;

  function giveBack(connection: OpenConnection): void {
    free.push(isClosed || mayStay(connection) ? connection : all.replace(connection));
    if (free.length + refused === size) onRest();
  }

  /** It is asked for again after a while, when all that are connected are in use. */
  function putAside(connection: OpenConnection): void {
    const next = isClosed ? connection : all.replace(connection);
    refused += 1;
    const again = (): void => {
      refused -= 1;
      free.unshift(next);
      serve();
    };
    setTimeout(again, REFUSED_MS).unref();
    if (free.length + refused === size) onRest();
  }

  /** Null: there is no such connection; nothing of the work was done. */
  async function attempt<T>(work: (lent: Lent) => Promise<T>, hangMs: number): Promise<{ value: T } | null> {
    // The one that was used last: it is connected.
    const connection = free.pop();
    if (connection === undefined) throw new Error('A turn has a connection');
    let isRefused = false;
    try {
      return { value: await work(lend(connection, hangMs)) };
    } catch (error) {
      if (LOST_STATEMENT.has(codeOf(error) ?? '')) {
        onLostStatement(error);
        connection.isDiscarded = true;
        free.push(...free.splice(0).map(all.replace));
      }
      const left = size - refused - 1;
      isRefused = isOneTooMany(error) && left >= CONNECTIONS_LEAST;
      if (!isRefused) throw error;
      onRefused(error, left);
      return null;
    } finally {
      if (isRefused) putAside(connection);
      else giveBack(connection);
    }
  }

  return {
    free,
    attempt,
    get isClosed() {
      return isClosed;
    },
    /** Lets running work end for so long, then ends every connection. Nothing begins after it. */
    async close(timeoutSeconds: number): Promise<void> {
      isClosed = true;
      if (free.length + refused < size) {
        const rest = later();
        onRest = rest.resolve;
        await endsWithin(rest.promise, timeoutSeconds * 1000);
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

type Lent = ReturnType<typeof lend>;

function lend(connection: OpenConnection, hangMs: number) {
  const discard = (): void => {
    connection.isDiscarded = true;
  };
  return {
    driver: connection.driver,
    /** How often its connection has ended: a transaction whose number changes is gone. */
    get losses(): number {
      return connection.losses;
    },
    /** Waits for a query; one that hangs takes the connection with it. */
    async answerOf<T>(query: PromiseLike<T>): Promise<T> {
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
    /** Nobody gets this connection any more: what it is in the middle of is uncertain. */
    discard,
  };
}

type Rows = readonly (object | undefined)[];
type Parameters = readonly postgres.ParameterOrFragment<never>[];

/** What runs queries, inside a transaction or outside of one. */
export interface Queries {
  /** Sent when it is waited for; as a parameter of another one it is a part of that. */
  <T extends Rows = postgres.Row[]>(
    template: TemplateStringsArray,
    ...parameters: Parameters
  ): postgres.PendingQuery<T>;
  /** Text as it is, also several statements: never with anything of a request in it. */
  unsafe(text: string): PromiseLike<postgres.RowList<postgres.Row[]>>;
  /**
   * The same for `COPY ... FROM STDIN`, and what it copies. Resolves when all is sent. In a transaction: whether it went well the next query says, with
   * IN_FAILED_TRANSACTION if not, since postgres.js 3.4.9 forgets an error that comes behind the last byte.
   */
  copyIn(text: string, bytes: Uint8Array): Promise<void>;
}

/** What went wrong came before, in the same transaction. */
export const IN_FAILED_TRANSACTION = '25P02';

export interface Sql extends Queries {
  /** See runTransaction. Work in it asks `tx` only: with this `sql` it would wait for a connection while it holds one. */
  transaction<T>(kind: TransactionKind, work: (tx: Queries) => Promise<T>): Promise<T>;
}

/** For questions of one party, an account by its id: those who share the connections have them in turn. */
export type SqlOf = (who: string) => Sql;

/** A part of a query, made by the same tagged template. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>;

type Send = InTransaction;

type QueryGuard = <T>(work: Promise<T>) => Promise<T>;

/**
 * `template` is a driver that is never connected: it makes the fragments. `who`: the party, in a lane that several share. `guard` stands around each query
 * and each transaction.
 */
export function createSql(template: Driver, lane: QueryLane, who = '', guard: QueryGuard = (work) => work): Sql {
  const send: Send = (query) => guard(lane(who, (lent) => lent.answerOf(query(lent.driver))));
  return Object.assign(queriesOver(template, send), {
    transaction: <T>(kind: TransactionKind, work: (tx: Queries) => Promise<T>): Promise<T> =>
      guard(lane(who, (lent) => runTransaction(lent, kind, (sendInside) => work(queriesOver(template, sendInside))))),
  });
}

function queriesOver(template: Driver, send: Send): Queries {
  const tag = <T extends Rows = postgres.Row[]>(
    text: TemplateStringsArray,
    ...parameters: Parameters
  ): postgres.PendingQuery<T> =>
    sentWhenWaitedFor(template<T>(text, ...parameters), () => send((driver) => driver<T>(text, ...parameters)));
  return Object.assign(tag, {
    unsafe: (text: string) => send((driver) => driver.unsafe(text)),
    copyIn: (text: string, bytes: Uint8Array) => send((driver) => copyInto(driver, text, bytes)),
  });
}

async function copyInto(driver: Driver, text: string, bytes: Uint8Array): Promise<void> {
  const stream = await driver.unsafe(text).writable();
  await new Promise<void>((resolve, reject) => {
    stream.on('error', reject);
    // Its last word goes out within `end` when nothing is left to be written: only then the driver takes the next query.
    stream.write(bytes, (error) => {
      if (error !== undefined && error !== null) return;
      stream.end();
      resolve();
    });
  });
}

/** The driver's own query, which it takes as a fragment, but for what sends it. */
function sentWhenWaitedFor<T extends Rows>(
  query: postgres.PendingQuery<T>,
  send: () => Promise<postgres.RowList<T>>,
): postgres.PendingQuery<T> {
  let answer: Promise<postgres.RowList<T>> | null = null;
  const sent = (): Promise<postgres.RowList<T>> => {
    answer ??= send();
    return answer;
  };
  // The driver begins with a query when its `then` is called, and so does this.
  const then: typeof query.then = (onAnswer, onError) => sent().then(onAnswer, onError);
  const rest: Pick<typeof query, 'catch' | 'finally'> = {
    catch: (onError) => sent().catch(onError),
    finally: (onEnd) => sent().finally(onEnd),
  };
  return Object.assign(query, { then, ...rest });
}

/** What the database's default is doesn't matter: a snapshot would not show what a lock's last holder did. */
const BEGIN = {
  readCommitted: 'BEGIN ISOLATION LEVEL READ COMMITTED',
  readOnly: 'BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY',
  /** Every query sees what the first one saw. */
  snapshot: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
} as const;

type TransactionKind = keyof typeof BEGIN;

/** Sends a query in the transaction; they go one after the other, in the order in which they are asked for. */
type InTransaction = <T>(query: (driver: Driver) => PromiseLike<T>) => Promise<T>;

/**
 * Commits what the work did; rolls it back when the work or any query in it fails, and rejects with that failure. Resolves only
 * when Postgres has said COMMIT.
 */
async function runTransaction<T>(
  lent: Lent,
  kind: TransactionKind,
  work: (send: InTransaction) => Promise<T>,
): Promise<T> {
  const { losses } = lent;
  const failed: unknown[] = [];
  let isOver = false;
  let last: Promise<unknown> = Promise.resolve();

  async function ask<R>(query: (driver: Driver) => PromiseLike<R>): Promise<R> {
    // The driver would connect again and send it outside of any transaction.
    if (lent.losses !== losses) throw new ConnectionLost('The connection ended inside a transaction');
    return await lent.answerOf(query(lent.driver));
  }

  function send<R>(query: (driver: Driver) => PromiseLike<R>): Promise<R> {
    const answer = last.then(async () => {
      if (failed.length > 0) throw failed[0];
      if (isOver) throw new Error('The transaction is over');
      return await ask(query);
    });
    last = answer.catch((error: unknown) => failed.push(error));
    return answer;
  }

  async function finish(): Promise<T> {
    const result = await work(send);
    // What was asked for and not waited for.
    await last;
    if (failed.length > 0) throw failed[0];
    isOver = true;
    const { command } = await ask((driver) => driver.unsafe('COMMIT'));
    // Postgres answers COMMIT with ROLLBACK when it has undone everything.
    if (command !== 'COMMIT') throw new Error('Postgres did not commit a transaction');
    return result;
  }

  try {
    await ask((driver) => driver.unsafe(BEGIN[kind]));
  } catch (error) {
    lent.discard();
    throw error;
  }
  try {
    return await finish();
  } catch (error) {
    isOver = true;
    await last;
    await ask((driver) => driver.unsafe('ROLLBACK')).catch(lent.discard);
    throw error;
  }
}
