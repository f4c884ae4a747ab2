// A transaction on a connection that is its own from before BEGIN until after its end, whatever happens in between.
//
// postgres.js 3.4.9 has `sql.begin` for this. It sends BEGIN over a connection that others use, and reserves it only if that neither
// fills the pipeline nor the socket; otherwise the transaction stays open on a connection that nobody holds, and others' queries end
// up in it (https://github.com/porsager/postgres/issues/1189). Its `sql.reserve` loses a connection for each time that it could not
// connect, and a query on a reserved connection that has ended in the meantime is an exception that nobody can catch.
import { ConnectionLost, type Driver, type Lent } from './connections.js';

/** What the database's default is doesn't matter: a snapshot would not show what a lock's last holder did. */
const BEGIN = {
  readCommitted: 'BEGIN ISOLATION LEVEL READ COMMITTED',
  readOnly: 'BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY',
} as const;

export type TransactionKind = keyof typeof BEGIN;

/** Sends a query in the transaction; they go one after the other, in the order in which they are asked for. */
export type InTransaction = <T>(query: (driver: Driver) => PromiseLike<T>) => Promise<T>;

/**
 * Commits what the work did; rolls it back when the work or any query in it fails, and rejects with that failure. Resolves only
 * when Postgres has said COMMIT.
 */
export async function runTransaction<T>(
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
