// Throttling of sign-ins, registrations, guesses and changes of keys: leaky buckets in Postgres, so that all nodes count together. A
// subject that was just refused is refused again from memory: however hard somebody tries, Postgres hears of it every few seconds. And people who are not signed in: whose
// address a request comes from, and what they may ask of the store and of the processor.
import { hash } from 'node:crypto';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import ipaddr from 'ipaddr.js';
import { type IpAddress, isIn, networkOf } from '../config/networks.js';
import { Failure, Unavailable, type UnavailableReason } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import { recentTable } from '../recent-table.js';
import type { Queries, Sql } from '../store/postgres.js';
import { FairTurns, type TurnLimits, type TurnRules, type Who } from '../waiting/turns.js';

export interface Rule {
  readonly name: string;
  /** Attempts that may come at once. */
  readonly burst: number;
  /** One more is allowed each so often. */
  readonly everyMs: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;

export const rules = {
  /** Everything from one address: an office of people who mistype has room; a list of passwords does not. */
  signInsOfAddress: { name: 'sign-in address', burst: 30, everyMs: 20 * SECOND },
  /** One account from one address: a user who has forgotten the password has ten tries, then one a minute. */
  signInsOfPair: { name: 'sign-in account address', burst: 10, everyMs: MINUTE },
  /** One account from everywhere it isn't signed in from: a thousand addresses have a hundred tries an hour between them. */
  signInsOfAccount: { name: 'sign-in account', burst: 100, everyMs: 36 * SECOND },
  /** Guesses of the current password in one session: a thief of its token must not find the password as well. */
  passwordsOfSession: { name: 'password session', burst: 10, everyMs: MINUTE },
  /** Checks of the current password of one account, right ones too: each costs as much as hundreds of scans. */
  passwordsOfAccount: { name: 'password account', burst: 30, everyMs: 20 * SECOND },
  /** New accounts from one address. */
  registrationsOfAddress: { name: 'registration address', burst: 30, everyMs: MINUTE },
  /** Attempts to make an account of one e-mail address, from everywhere: each costs a hash of a password, and says whether it is taken. */
  registrationsOfAccount: { name: 'registration account', burst: 10, everyMs: MINUTE },
  /** Codes of the second factor of one account, from everywhere: of a million three are right at a time. */
  codesOfAccount: { name: 'code account', burst: 10, everyMs: MINUTE },
  /** Links to another password asked for from one address, and passwords set by them. */
  resetsOfAddress: { name: 'reset address', burst: 30, everyMs: MINUTE },
  /** Mails to one address. */
  resetsOfAccount: { name: 'reset account', burst: 3, everyMs: 10 * MINUTE },
  /** Keys made by one user: a script that makes one for each build has room; one in a loop does not. */
  keyCreationsOfUser: { name: 'key creation', burst: 100, everyMs: 10 * SECOND },
  /** Changes of their keys by one user. */
  keyChangesOfUser: { name: 'key change', burst: 200, everyMs: 5 * SECOND },
  /** Attempts of one user to end a key, counted apart: a user who has made too many keys can still end those that leaked. */
  keyEndsOfUser: { name: 'key end', burst: 200, everyMs: 5 * SECOND },
} as const satisfies Record<string, Rule>;

export type Attempt = readonly [Rule, ...string[]];

/** Subjects whose refusal is remembered, some 300 bytes each. */
const REMEMBERED_MAX = 10_000;
/** For so long: another node may have given an attempt back meanwhile. */
const REMEMBERED_MS = 5 * SECOND;
/** A bucket that is full for so much longer than one can be was filled by a clock that was ahead, and begins anew: it would keep everybody out until that time. */
const AHEAD_MS = 10 * MINUTE;

interface Refused {
  readonly knownUntilMs: number;
  readonly freeAtMs: number;
}

/** Of one process; the counts are everybody's. */
export function createThrottle(now: () => number) {
  const refused = recentTable<Refused>(REMEMBERED_MAX);

  const waitOf = ({ freeAtMs }: Refused): number => Math.max(1, Math.ceil((freeAtMs - now()) / SECOND));

  /** Those attempts of which it is known that they are refused now; the first of them decides. */
  function known(attempts: readonly Attempt[]): Throttled | null {
    for (const attempt of attempts) {
      const entry = refused.get(keyOf(attempt));
      const knownMs = entry === undefined ? 0 : entry.knownUntilMs - now();
      // What is known for longer was found before the clock was set back.
      if (entry !== undefined && knownMs > 0 && knownMs <= REMEMBERED_MS)
        return { attempt, waitSeconds: waitOf(entry) };
    }
    return null;
  }

  /**
   * Counts attempts, all of them or none; null when they are allowed, otherwise the first that isn't and the seconds until it is. What
   * is refused doesn't count: however hard somebody tries, the next allowed attempt comes as soon. The time is the caller's clock.
   */
  async function take(sql: Sql, attempts: readonly Attempt[]): Promise<Throttled | null> {
    const before = known(attempts);
    if (before !== null) return before;
    const nowMs = now();
    const over = await takeAll(sql, attempts, nowMs);
    if (over === null) return null;
    const entry = { freeAtMs: over.freeAtMs, knownUntilMs: Math.min(over.freeAtMs, nowMs + REMEMBERED_MS) };
    refused.set(keyOf(over.attempt), entry);
    return { attempt: over.attempt, waitSeconds: waitOf(entry) };
  }

  return {
    known,
    take,
    /** The same; throws Failure('tooManyAttempts') when they aren't allowed. */
    async require(sql: Sql, attempts: readonly Attempt[]): Promise<void> {
      const refusal = await take(sql, attempts);
      if (refusal !== null) throw tooMany(refusal);
    },
    /** Takes attempts back that turned out to be honest. */
    async giveBack(sql: Sql, attempts: readonly Attempt[]): Promise<void> {
      await sql.transaction('readCommitted', async (tx) => {
        for (const attempt of attempts) {
          await tx`
            UPDATE sign_in_attempts SET full_until = full_until - ${stepOf(attempt)}::interval
            WHERE bucket = ${bucketOf(attempt)}`;
        }
      });
      for (const attempt of attempts) refused.delete(keyOf(attempt));
    },
  };
}

export type Throttle = ReturnType<typeof createThrottle>;

export interface Throttled {
  readonly attempt: Attempt;
  readonly waitSeconds: number;
}

export const tooMany = ({ waitSeconds }: Throttled): Failure => new Failure('tooManyAttempts', '', waitSeconds);

export async function sweepAttempts(sql: Queries, nowMs: number): Promise<number> {
  return (await sql`DELETE FROM sign_in_attempts WHERE full_until <= ${new Date(nowMs)}`).count;
}

class Over extends Error {
  readonly attempt: Attempt;
  readonly freeAtMs: number;

  constructor(attempt: Attempt, freeAtMs: number) {
    super('Too many attempts');
    this.attempt = attempt;
    this.freeAtMs = freeAtMs;
  }
}

/** Always in the order in which they are given, so that two who count in the same buckets don't wait for each other for ever. */
async function takeAll(sql: Sql, attempts: readonly Attempt[], nowMs: number): Promise<Over | null> {
  try {
    // Whatever the database's default is: a snapshot would fail on a row that others count in.
    await sql.transaction('readCommitted', async (tx) => {
      for (const attempt of attempts) {
        const freeAtMs = await takeOne(tx, attempt, nowMs);
        // Those before it are undone.
        if (freeAtMs !== null) throw new Over(attempt, freeAtMs);
      }
    });
    return null;
  } catch (error) {
    if (error instanceof Over) return error;
    throw error;
  }
}

/** Null: it is counted. Otherwise when there is room for it. */
async function takeOne(tx: Queries, attempt: Attempt, nowMs: number): Promise<number | null> {
  const [{ burst, everyMs }] = attempt;
  const bucket = bucketOf(attempt);
  const step = stepOf(attempt);
  const now = new Date(nowMs);
  const first = new Date(nowMs + everyMs);
  const full = new Date(nowMs + burst * everyMs);
  const wrong = new Date(full.getTime() + AHEAD_MS);
  const filled = tx`CASE WHEN a.full_until > ${wrong} THEN ${now} ELSE greatest(a.full_until, ${now}) END + ${step}::interval`;
  const [row] = await tx<{ taken: boolean; full_until: Date }[]>`
    WITH taken AS (
      INSERT INTO sign_in_attempts AS a (bucket, full_until) VALUES (${bucket}, ${first})
      ON CONFLICT (bucket) DO UPDATE SET full_until = ${filled} WHERE ${filled} <= ${full}
      RETURNING full_until
    )
    SELECT true AS taken, full_until FROM taken
    UNION ALL
    SELECT false, full_until FROM sign_in_attempts WHERE bucket = ${bucket} AND NOT EXISTS (SELECT FROM taken)`;
  if (row?.taken === true) return null;
  // No row: it was filled at this moment, by others.
  return row === undefined ? nowMs + everyMs : nowMs + row.full_until.getTime() + everyMs - full.getTime();
}

const stepOf = ([{ everyMs }]: Attempt): string => `${everyMs} milliseconds`;

const keyOf = ([{ name }, ...subject]: Attempt): string => JSON.stringify([name, ...subject]);

/** Hashed: of one size whatever was typed, and no list of addresses. */
const bucketOf = (attempt: Attempt): Buffer => hash('sha256', keyOf(attempt), 'buffer');

/** Turns whose work is refused for this reason, where there is no place to wait for one, or none in time. */
export function turnsWithin(limits: TurnLimits & Pick<TurnRules, 'leastMs'>, reason: UnavailableReason): FairTurns {
  const busy = (): Error => new Unavailable(reason);
  return new FairTurns({ ...limits, full: busy, late: busy });
}

/** The party of their questions, among the accounts that share the store's connections. */
export const STRANGERS = 'strangers';

/**
 * Of one process; a turn is some questions to the store. The rest of the store's connections is for accounts, and so is most of its time: one address has
 * 400 turns a second, all of them 800.
 */
const LIMITS = { running: 4, runningEach: 2, leastMs: 5, waiting: 2_000, waitingEach: 1_500, waitMs: 8_000 };

/** Refusals that need no store: who asks again as soon as it is refused would have the serving thread for itself. */
const REFUSALS = { running: 8, runningEach: 2, waiting: 10_000, waitingEach: 7_500, waitMs: 4_000 };
const REFUSAL_MS = 5;

export type Strangers = ReturnType<typeof createStrangers>;

export function createStrangers() {
  const questions = turnsWithin(LIMITS, 'signInsBusy');
  const refusals = turnsWithin(REFUSALS, 'signInsBusy');
  return {
    /** Does what asks the store, when it is this one's turn. Throws Failure('unavailable') when there is none in time. */
    ask: <T>(who: Who, work: () => Promise<T>): Promise<T> => questions.run(who, work),
    /** Throws the failure, when it is the turn of that address to be refused. */
    async refuse(address: string, failure: Failure): Promise<never> {
      await refusals.run([address], () => delay(REFUSAL_MS));
      throw failure;
    },
  };
}

/** Secrets that are remembered, by their hash; some 150 bytes each. */
const ENTRIES_MAX = 20_000;

/** Secrets with a value that is known for a while: those that nobody has, and tokens that were verified. */
export function createRemembered<Value extends object | number>(now: () => number) {
  const entries = recentTable<{ readonly value: Value; readonly untilMs: number }>(ENTRIES_MAX);
  return {
    get(secret: string): Value | null {
      const entry = entries.get(digestOf(secret));
      return entry !== undefined && now() < entry.untilMs ? entry.value : null;
    },
    set(secret: string, value: Value, untilMs: number): void {
      entries.set(digestOf(secret), { value, untilMs });
    },
  };
}

/** No secret stays in memory, and how long a comparison takes says nothing of it. */
const digestOf = (secret: string): string => hash('sha256', secret, 'base64');

/** An entry as some proxies write it: `192.0.2.1:4711`, `[2001:db8::1]:4711`, `[2001:db8::1]`. */
const WITH_PORT = /^(?:(\d+\.\d+\.\d+\.\d+):\d+|\[([0-9a-f:.]+)\](?::\d+)?)$/i;
/** An IPv6 customer has a whole network of this size at least. */
const IPV6_CUSTOMER_BITS = 64;

export type AddressOf = (exchange: Pick<Exchange, 'remoteAddress' | 'headers'>) => string;

/**
 * The right-most address that isn't a trusted proxy's: each proxy adds the address of its client at the right, so everything further left
 * may be made up. Without trusted proxies it is the connection's. `trusted` are networks in CIDR notation.
 */
export function createAddressOf(trusted: readonly string[]): AddressOf {
  const networks = trusted.map(networkOf);
  const isTrusted = (address: IpAddress): boolean => networks.some((network) => isIn(address, network));

  return (exchange) => {
    const remoteAddress = exchange.remoteAddress();
    const remote = read(remoteAddress);
    if (remote === null) return remoteAddress;
    let client = remote;
    const claims = (exchange.headers.get('x-forwarded-for') ?? '').split(',').reverse();
    for (const claim of claims) {
      if (!isTrusted(client)) break;
      const next = read(claim.trim());
      // `unknown`, a name, nonsense: the proxy that passed it on is the last one that we know of.
      if (next === null) break;
      client = next;
    }
    return client.toString();
  };
}

/** What is throttled as one: an IPv4 address, or the /64 of an IPv6 address. */
export function throttledAs(address: string): string {
  const parsed = read(address);
  if (parsed === null || parsed.kind() === 'ipv4') return address;
  const bytes = parsed.toByteArray();
  const network = bytes.map((byte, index) => (index < IPV6_CUSTOMER_BITS / 8 ? byte : 0));
  return `${ipaddr.fromByteArray(network).toString()}/${IPV6_CUSTOMER_BITS}`;
}

/** IPv4 addresses that IPv6 sockets see as `::ffff:192.0.2.1` become IPv4. The library alone would read `1` and `0x7f.1`, too. */
function read(text: string): IpAddress | null {
  const [, ipv4, ipv6] = WITH_PORT.exec(text) ?? [];
  const bare = ipv4 ?? ipv6 ?? text;
  return isIP(bare) === 0 || bare.includes('%') ? null : ipaddr.process(bare);
}
