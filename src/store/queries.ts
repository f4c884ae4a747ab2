// Queries as the rooms write them: tagged templates, each over a connection of its own for as long as it takes, and transactions.
import type postgres from 'postgres';
import type { Driver, Lane } from './connections.js';
import { guarded } from './guard.js';
import { type InTransaction, runTransaction, type TransactionKind } from './transaction.js';

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
}

export interface Sql extends Queries {
  /** See runTransaction. Work in it asks `tx` only: with this `sql` it would wait for a connection while it holds one. */
  transaction<T>(kind: TransactionKind, work: (tx: Queries) => Promise<T>): Promise<T>;
}

/** A part of a query, made by the same tagged template. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>;

type Send = InTransaction;

/** `template` is a driver that is never connected: it makes the fragments. */
export function createSql(template: Driver, lane: Lane): Sql {
  const send: Send = (query) => lane((lent) => lent.answerOf(query(lent.driver)));
  return Object.assign(queriesOver(template, send), {
    transaction: <T>(kind: TransactionKind, work: (tx: Queries) => Promise<T>): Promise<T> =>
      lane((lent) => runTransaction(lent, kind, (sendInside) => work(queriesOver(template, sendInside)))),
  });
}

/** The same for requests: each query and each transaction has the guard's deadline and its one rule. */
export function guardedSql(template: Driver, lane: Lane): Sql {
  const sql = createSql(template, lane);
  const send: Send = (query) => guarded(lane((lent) => lent.answerOf(query(lent.driver))));
  return Object.assign(queriesOver(template, send), {
    transaction: <T>(kind: TransactionKind, work: (tx: Queries) => Promise<T>): Promise<T> =>
      guarded(sql.transaction(kind, work)),
  });
}

function queriesOver(template: Driver, send: Send): Queries {
  const tag = <T extends Rows = postgres.Row[]>(
    text: TemplateStringsArray,
    ...parameters: Parameters
  ): postgres.PendingQuery<T> =>
    sentWhenWaitedFor(template<T>(text, ...parameters), () => send((driver) => driver<T>(text, ...parameters)));
  return Object.assign(tag, { unsafe: (text: string) => send((driver) => driver.unsafe(text)) });
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
