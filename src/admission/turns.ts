// Who counts. Where processes share a Redis: Redis, or Postgres while one of them can't reach it, and never both. Each process asks Postgres about it a
// few times a second, beside the requests, and may use Redis for a second after it asked (a lease); so Postgres begins to count when all leases have
// ended. Without Redis the one process counts, and hands its counts to the next one: while both live Postgres counts for both, which is slower and exact.
import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '../errors.js';
import type { Sql } from '../store/postgres.js';
import { asFailure, guarded, STORE_ANSWER_MS, StoreAway } from '../store/store-error.js';
import { oneAtATime, within, withinOr } from '../waiting/within.js';
import type { Ledger } from './admission.js';
import type { QuotaHours } from './quota-hours.js';

export interface TurnParts {
  readonly sql: Sql;
  readonly ledger: Ledger;
  /** Null: Redis is used. */
  readonly problem: () => string | null;
  /** Brings to Redis what Postgres has counted. */
  readonly reconcile: () => Promise<void>;
  /** Brings to Postgres what Redis has counted, as far as this process knows. */
  readonly flush: () => Promise<void>;
  readonly onProblem: (message: string) => void;
}

/** Three of these are in a lease: one answer may be late. */
const ASK_MS = 300;
/** Redis may be used for so long after Postgres was asked whether it counts. */
const LEASE_MS = 1_000;
/**
 * So long after Redis was left everybody has noticed, and what they had counted there is in Postgres (quota-mirror.ts). `postgres_counts()` of
 * the database says the same.
 */
const LEFT_MS = 1_250;
/** Redis is left for so long, unless a process that can't reach it prolongs that. */
const AWAY_MS = 2_000;
/** It does so when less than this is left of it: not all of them have to. */
const PROLONG_MS = 1_000;
/** A Redis that is lost for a moment is not left by all. */
const PATIENCE_MS = 300;
/** The same where it is back already, and not used yet. It may be lost again meanwhile. */
const RETURN_MS = LEFT_MS + 2 * PATIENCE_MS;
const LOOK_MS = 20;
/** A process that has had no request for so long asks only at every fourth time. */
const IDLE_MS = 10_000;
const IDLE_ASKS = 4;
/** Postgres that gave no answer is away for so long: by then it has been asked again, also by a process without requests. */
const ALONE_MS = LEASE_MS + 2 * ASK_MS;
/** A request doesn't wait longer than this to hear whether it may use Redis: giving Redis what Postgres counted may take longer. */
const HEAR_MS = LEASE_MS + ASK_MS;
const DECISION_MS = STORE_ANSWER_MS - 500;

interface Told {
  /** How often Redis was left. */
  readonly generation: number;
  /** Redis is left for so long; 0: it isn't. */
  readonly awayMs: number;
  /** It was left, and nobody has given the count back to it. */
  readonly isOpen: boolean;
  /** By this process's clock; null: not yet for all. */
  readonly leftAtMs: number | null;
}

interface TurnRow {
  readonly generation: string;
  readonly away_ms: number;
  readonly is_open: boolean;
  readonly left_ms: number | null;
}

function createQuestions(sql: Sql) {
  const awayMs = sql`${AWAY_MS} * interval '1 millisecond'`;
  // Later than anybody writes it: the clock of Postgres was set back.
  const isOver = sql`(until IS NULL OR until <= clock_timestamp() OR until > clock_timestamp() + ${awayMs})`;
  const row = sql`generation, (CASE WHEN ${isOver} THEN 0 ELSE extract(epoch FROM until - clock_timestamp()) * 1000 END)::float8 AS away_ms,
    until IS NOT NULL AS is_open, (extract(epoch FROM clock_timestamp() - since) * 1000)::float8 AS left_ms`;
  const until = sql`CASE WHEN ${isOver} THEN NULL ELSE until END`;
  return {
    look: async () => await sql<TurnRow[]>`SELECT ${row} FROM ledger_away`,
    /** Redis is left, or for longer. Who asks afterwards knows it. */
    leave: async () =>
      await sql<TurnRow[]>`
        UPDATE ledger_away SET until = clock_timestamp() + ${awayMs}, generation = generation + CASE WHEN ${isOver} THEN 1 ELSE 0 END,
          since = CASE WHEN ${isOver} OR since > clock_timestamp() THEN NULL ELSE since END
        RETURNING ${row}`,
    /** The next step: it says since when. */
    mark: async () =>
      await sql<TurnRow[]>`UPDATE ledger_away SET since = coalesce(since, clock_timestamp()) RETURNING ${row}`,
    /** Redis counts, if nobody has prolonged it. It waits for units that Postgres counts just now, and afterwards Postgres counts none. */
    giveBack: async () => await sql<TurnRow[]>`UPDATE ledger_away SET until = ${until} RETURNING ${row}`,
  };
}

/** What Postgres has told this process last, and whether the process may use Redis. */
function createLease({ sql, problem, reconcile, flush, onProblem }: TurnParts) {
  const questions = createQuestions(sql);
  let told: Told = { generation: -1, awayMs: 0, isOpen: false, leftAtMs: null };
  /** Redis has all that Postgres had counted by the end of this generation; null: of none. */
  let reconciled: number | null = null;
  let endsMs = Number.NEGATIVE_INFINITY;
  /** Postgres is away until then: nobody can count there, and Redis alone counts. */
  let aloneEndsMs = Number.NEGATIVE_INFINITY;
  /** Grows when Redis was left, and when it may have lost what it had. */
  let term = 0;

  async function hear(answer: Promise<readonly TurnRow[]>): Promise<void> {
    const askedAtMs = performance.now();
    const [said] = await within(answer, LEASE_MS);
    if (said === undefined) throw new Error('ledger_away has no row');
    const { left_ms: leftMs, away_ms: awayMs, is_open: isOpen } = said;
    const leftAtMs = leftMs === null ? null : performance.now() - leftMs;
    const isNew = awayMs > 0 && told.awayMs === 0;
    if (Number(said.generation) !== told.generation) term += 1;
    told = { generation: Number(said.generation), awayMs, isOpen, leftAtMs };
    aloneEndsMs = Number.NEGATIVE_INFINITY;
    const isRedis = !isOpen && told.generation === reconciled;
    endsMs = isRedis ? askedAtMs + LEASE_MS : Number.NEGATIVE_INFINITY;
    if (isNew) flush().catch((error) => onProblem(`The counts of Redis are not in Postgres: ${String(error)}`));
  }

  async function leave(): Promise<void> {
    await hear(questions.leave());
    if (told.leftAtMs === null) await hear(questions.mark());
  }

  async function askOnce(): Promise<void> {
    await hear(questions.look());
    if (told.awayMs > 0) {
      if (problem() !== null && told.awayMs < PROLONG_MS) await leave();
      return;
    }
    if (problem() !== null) return;
    if (told.isOpen) await hear(questions.giveBack());
    if (told.isOpen || told.generation === reconciled) return;
    const [{ generation }, termBefore] = [told, term];
    await reconcile();
    if (term !== termBefore) return;
    reconciled = generation;
    await hear(questions.look());
  }

  const ask = shared(askOnce, onProblem, () => {
    aloneEndsMs = performance.now() + ALONE_MS;
  });

  return {
    told: () => told,
    leave,
    mayUse(): boolean {
      const nowMs = performance.now();
      return nowMs < endsMs || (nowMs < aloneEndsMs && !told.isOpen && told.generation === reconciled);
    },
    /** When it has grown, what Redis was asked before is not to be believed. */
    term: () => term,
    ask,
    /** Redis may have lost what it had. */
    end(): void {
      term += 1;
      reconciled = null;
      endsMs = Number.NEGATIVE_INFINITY;
    },
  };
}

/** All who ask meanwhile share the answer. `onAway`: Postgres gives none. */
function shared(
  question: () => Promise<void>,
  onProblem: TurnParts['onProblem'],
  onAway: () => void,
): () => Promise<void> {
  let reported: string | null = null;

  function failed(error: unknown): void {
    // Redis is away: its connection says so.
    if (error instanceof StoreAway) return;
    if (asFailure(error) instanceof Unavailable) {
      onAway();
      return;
    }
    const message = `Whether Redis or Postgres counts can't be found out: ${String(error)}`;
    if (message !== reported) onProblem(message);
    reported = message;
  }

  return oneAtATime(() =>
    question().then(() => {
      reported = null;
    }, failed),
  );
}

export type LedgerTurns = ReturnType<typeof createTurns>;

export function createTurns(parts: TurnParts) {
  const { ledger, problem } = parts;
  let isReturning = false;
  let usedAtMs = Number.NEGATIVE_INFINITY;
  const lease = createLease(parts);

  async function mustUse(): Promise<void> {
    await withinOr(lease.ask(), HEAR_MS, undefined);
    if (!lease.mayUse()) throw new StoreAway(new Error('Postgres counts'));
  }

  async function use<T>(step: () => T | Promise<T>): Promise<T> {
    usedAtMs = performance.now();
    if (!lease.mayUse()) await mustUse();
    const term = lease.term();
    const answer = await step();
    // The answer was late: Postgres may count by now, or have counted meanwhile. The unit that Redis has counted is lost.
    if (!lease.mayUse()) await mustUse();
    if (lease.term() !== term) throw new StoreAway(new Error('Postgres has counted since'));
    return answer;
  }

  async function decide(): Promise<boolean> {
    const begunMs = performance.now();
    for (;;) {
      const { awayMs, leftAtMs } = lease.told();
      const nowMs = performance.now();
      if (awayMs > 0) {
        if (leftAtMs !== null && nowMs - leftAtMs >= LEFT_MS) return true;
      } else if (problem() === null) return false;
      else if (nowMs - begunMs >= (isReturning ? RETURN_MS : PATIENCE_MS)) await guarded(lease.leave());
      if (nowMs - begunMs > DECISION_MS) throw new Unavailable('storeDown');
      await sleep(LOOK_MS, undefined, { ref: false });
    }
  }

  let asks = 0;
  const timer = setInterval(() => {
    asks += 1;
    const isIdle = !lease.told().isOpen && performance.now() - usedAtMs >= IDLE_MS;
    if (!isIdle || asks % IDLE_ASKS === 0) void lease.ask();
  }, ASK_MS);
  timer.unref();
  void lease.ask();

  return {
    /** The ledger, which is away for this process when Redis is, and when Postgres counts for all. */
    ledger: {
      ...ledger,
      take: (userId, keyHash) => use(() => ledger.take(userId, keyHash)),
      look: (userId) => use(() => ledger.look(userId)),
    } satisfies Ledger,
    /** To be asked when the ledger is away. True: Postgres counts now. False: the ledger is to be asked again. Throws Failure `unavailable` when nobody counts. */
    isPostgres: oneAtATime(decide),
    /**
     * To be awaited before this process uses a Redis again that it had lost. Redis may have lost counts meanwhile; those of the last second are on
     * their way to Postgres.
     */
    async returning(): Promise<void> {
      isReturning = true;
      lease.end();
      await sleep(LEFT_MS, undefined, { ref: false }).finally(() => {
        isReturning = false;
      });
    },
    problem: (): string | null =>
      problem() ?? (lease.told().awayMs > 0 ? 'Postgres counts: another process cannot reach Redis' : null),
    stop: (): void => clearInterval(timer),
  };
}

/** `isAway`: another process counts still. */
export function createHandover(createLedger: () => Ledger, hours: QuotaHours, isAway: boolean) {
  let ledger = createLedger();
  let isHere = !isAway;

  function here(): Ledger {
    if (!isHere) throw away();
    return ledger;
  }

  return {
    ledger: {
      take: (userId, keyHash) => (isHere ? ledger.take(userId, keyHash) : Promise.reject(away())),
      look: async (userId) => await here().look(userId),
      async giveBack(userId, windowStartSeconds, keyId) {
        const left = await ledger.giveBack(userId, windowStartSeconds, keyId);
        // Postgres counts: it has to have it before the answer.
        if (!isHere && left !== null) await hours.mirror([{ userId, keyId, ...left }]);
        return left;
      },
      begin: async (userId) => await here().begin(userId),
      fill: async (userId, token, facts) => await here().fill(userId, token, facts),
      // While every request asks Postgres, nothing has to be passed on: Postgres has the change already.
      async revoke(userId, keyHash) {
        if (isHere) await ledger.revoke(userId, keyHash);
      },
      async setLimit(userId, hourlyLimit) {
        if (isHere) await ledger.setLimit(userId, hourlyLimit);
      },
      async setKey(userId, key) {
        if (isHere) await ledger.setKey(userId, key);
      },
      async raise(raised) {
        if (isHere) await ledger.raise(raised);
      },
      ownerOf: async (keyHash) => await ledger.ownerOf(keyHash),
      rememberOwner: async (keyHash, owner) => await ledger.rememberOwner(keyHash, owner),
    } satisfies Ledger,
    hours: {
      ...hours,
      async take(userId, hourlyLimit, seen, keyId) {
        const count = await hours.take(userId, hourlyLimit, seen, keyId);
        // The ledger came back while Postgres counted.
        if (isHere) await ledger.raise([count]);
        return count;
      },
    } satisfies QuotaHours,
    /** From now on Postgres counts. What was counted here is to be mirrored to it next. */
    leave(): void {
      isHere = false;
    },
    /** Nobody else counts any more: from now on a ledger does, filled from Postgres. */
    arrive(): void {
      if (isHere) return;
      ledger = createLedger();
      isHere = true;
    },
  };
}

const away = (): StoreAway => new StoreAway(new Error('Another process takes over'));
