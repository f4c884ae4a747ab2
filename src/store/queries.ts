// Queries as the rooms write them: tagged templates, each over a connection of its own for as long as it takes, and transactions.
//
// A transaction is on a connection that is its own from before BEGIN until after its end, whatever happens in between. postgres.js 3.4.9 has
// `sql.begin` for this. It sends BEGIN over a connection that others use, and reserves it only if that neither fills the pipeline nor the
// socket; otherwise the transaction stays open on a connection that nobody holds, and others' queries end up in it
// (https://github.com/porsager/postgres/issues/1189). Its `sql.reserve` loses a connection for each time that it could not connect, and a
// query on a reserved connection that has ended in the meantime is an exception that nobody can catch.
import type postgres from 'postgres';
import { ConnectionLost, type Driver, type Lane, type Lent } from './connections.js';

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

type Guard = <T>(work: Promise<T>) => Promise<T>;

/**
 * `template` is a driver that is never connected: it makes the fragments. `who`: the party, in a lane that several share. `guard` stands around each query
 * and each transaction.
 */
export function createSql(template: Driver, lane: Lane, who = '', guard: Guard = (work) => work): Sql {
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
