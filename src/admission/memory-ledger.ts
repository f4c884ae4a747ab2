// The ledger in this process: exact for one node. No step has an await in it, that is what makes it atomic.
import { uptime } from 'node:os';
import type { KeyRules } from '../config/plans.js';
import { type RecentTable, recentTable, USUAL } from '../recent-table.js';
import {
  type Facts,
  HOUR_SECONDS,
  HOURS_KEPT,
  type Ledger,
  type LedgerAnswer,
  type LedgerKey,
  type QuotaHour,
  RECORD_KEYS_MAX,
  REMEMBERED_MAX,
  type Tally,
  usedUnits,
  windowStart,
} from './admission.js';

interface HourUnits {
  counted: number;
  returned: number;
  direct: number;
  directReturned: number;
}

interface Hour extends HourUnits {
  /** Of keys that have a limit of their own, by their ids; null: of none. */
  keys: Map<string, HourUnits> | null;
}

interface LedgerUser {
  limit: number | null;
  /** By their hashes; null: the key has ended. */
  readonly keys: Map<string, LedgerKey | null>;
  readonly hours: Map<number, Hour>;
  token: number;
}

interface MemoryLedgerOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number;
  /** Seconds that go by whatever the clock is set to; default: since the machine was started. */
  readonly uptimeSeconds?: () => number;
  /** The user who asked least recently is forgotten, with the counts. What is in Postgres stays. */
  readonly usersMax?: number;
}

/** An hour may end so much sooner than it should: clocks are corrected by seconds all the time. */
const CORRECTION_SECONDS = 60;

export function createMemoryLedger({ clock, uptimeSeconds = uptime, usersMax }: MemoryLedgerOptions): Ledger {
  const users = recentTable<LedgerUser>(usersMax ?? REMEMBERED_MAX);
  return {
    ...countsOf(users, createHourClock(clock, uptimeSeconds)),
    ...factsOf(users),
    // This process asks its own memory for them first (key-owners.ts).
    ownerOf: async () => null,
    rememberOwner: async () => undefined,
  };
}

type Users = RecentTable<LedgerUser>;
interface Now {
  readonly windowStartSeconds: number;
  readonly nowSeconds: number;
}
type HourClock = () => Now;

/** The hour in which units count. One that has begun lasts until it has gone by: a clock that jumps gives nobody units. */
function createHourClock(clock: () => number, uptimeSeconds: () => number): HourClock {
  let now = { windowStartSeconds: Number.NEGATIVE_INFINITY, nowSeconds: 0 };
  let endsAtUptime = Number.NEGATIVE_INFINITY;
  return () => {
    const nowSeconds = Math.floor(clock() / 1000);
    let { windowStartSeconds } = now;
    if (nowSeconds === now.nowSeconds) return now;
    if (nowSeconds < windowStartSeconds || nowSeconds >= windowStartSeconds + HOUR_SECONDS) {
      const uptimeNow = uptimeSeconds();
      const leftSeconds = endsAtUptime - uptimeNow;
      if (leftSeconds > CORRECTION_SECONDS) {
        return { windowStartSeconds, nowSeconds: windowStartSeconds + HOUR_SECONDS - Math.floor(leftSeconds) };
      }
      windowStartSeconds = windowStart(nowSeconds);
      endsAtUptime = uptimeNow + windowStartSeconds + HOUR_SECONDS - nowSeconds;
    }
    now = { windowStartSeconds, nowSeconds };
    return now;
  };
}

function countsOf(users: Users, hourNow: HourClock): Pick<Ledger, 'take' | 'look' | 'giveBack'> {
  return {
    take(userId, keyHash) {
      const user = users.get(userId, USUAL);
      if (user === undefined || user.limit === null) return { kind: 'missing' };
      const key = keyHash === null ? null : user.keys.get(keyHash);
      if (key === undefined) return { kind: 'missing' };
      if (key === null && keyHash !== null) return { kind: 'revoked' };
      const now = hourNow();
      const { windowStartSeconds, nowSeconds } = now;
      const hour = user.hours.get(windowStartSeconds) ?? openPresentHour(user, windowStartSeconds);
      if (key?.rules !== undefined) return takeByRules(user.limit, hour, key.keyId, key.rules, now);
      const { limit } = user;
      const direct = hour.direct - hour.directReturned;
      const kind = hour.counted - hour.returned + direct < limit ? 'taken' : 'exhausted';
      if (kind === 'taken') hour.counted += 1;
      const { counted, returned } = hour;
      return { kind, limit, counted, returned, direct, windowStartSeconds, nowSeconds };
    },
    async look(userId) {
      const user = users.get(userId);
      if (user === undefined || user.limit === null) return null;
      const { windowStartSeconds, nowSeconds } = hourNow();
      return { limit: user.limit, ...countsIn(user.hours.get(windowStartSeconds)), windowStartSeconds, nowSeconds };
    },
    async giveBack(userId, windowStartSeconds, keyId) {
      const user = users.peek(userId);
      const all = user?.hours.get(windowStartSeconds);
      const hour = keyId === undefined ? all : all?.keys?.get(keyId);
      if (hour === undefined || hour.returned >= hour.counted || user === undefined || user.limit === null) return null;
      hour.returned += 1;
      return { limit: user.limit, ...countsIn(hour), windowStartSeconds };
    },
  };
}

/** A unit for a key that may less than its account: both counts, or none. */
function takeByRules(limit: number, hour: Hour, keyId: string, rules: KeyRules, now: Now): LedgerAnswer {
  const { text } = rules;
  if (rules.isOver(now.nowSeconds)) return { kind: 'expired', rules: text };
  if (!rules.allows('scan')) return { kind: 'unscoped', rules: text };
  const units = rules.hourlyLimit === null ? null : unitsOf(hour, keyId);
  const hasLeft = units === null || usedUnits(countsIn(units)) < (rules.hourlyLimit ?? 0);
  const kind = hasLeft && usedUnits(countsIn(hour)) < limit ? 'taken' : 'exhausted';
  if (kind === 'taken') {
    hour.counted += 1;
    if (units !== null) units.counted += 1;
  }
  const own: Tally | undefined = units === null ? undefined : { limit: rules.hourlyLimit ?? 0, ...countsIn(units) };
  return { kind, limit, ...countsIn(hour), own, rules: text, ...now };
}

function unitsOf(hour: Hour, keyId: string): HourUnits {
  hour.keys ??= new Map();
  const known = hour.keys.get(keyId);
  if (known !== undefined) return known;
  const fresh = { counted: 0, returned: 0, direct: 0, directReturned: 0 };
  hour.keys.set(keyId, fresh);
  return fresh;
}

function countsIn(hour: HourUnits = { counted: 0, returned: 0, direct: 0, directReturned: 0 }) {
  return { counted: hour.counted, returned: hour.returned, direct: hour.direct - hour.directReturned };
}

function factsOf(users: Users): Pick<Ledger, 'begin' | 'fill' | 'revoke' | 'setLimit' | 'setKey' | 'raise'> {
  let tokens = 0;

  function userOf(userId: string): LedgerUser {
    const known = users.get(userId);
    if (known !== undefined) return known;
    tokens += 1;
    const user: LedgerUser = { limit: null, keys: new Map(), hours: new Map(), token: tokens };
    users.set(userId, user);
    return user;
  }

  function voidTokens(user: LedgerUser): void {
    tokens += 1;
    user.token = tokens;
  }

  return {
    begin: async (userId) => String(userOf(userId).token),
    async fill(userId, token, { key, hourlyLimit, hours }: Facts) {
      const user = userOf(userId);
      if (String(user.token) !== token) return false;
      user.limit = hourlyLimit;
      if (key !== null && user.keys.get(key.hash) !== null) user.keys.set(key.hash, key);
      for (const hour of hours) raiseHour(user, hour);
      return true;
    },
    async revoke(userId, keyHash) {
      const user = userOf(userId);
      // As in Redis: what is filled in next was read after the key had ended.
      if (user.keys.size > RECORD_KEYS_MAX) user.keys.clear();
      user.keys.set(keyHash, null);
      voidTokens(user);
    },
    async setLimit(userId, hourlyLimit) {
      const user = userOf(userId);
      if (user.limit !== null) user.limit = hourlyLimit;
      voidTokens(user);
    },
    async setKey(userId, key) {
      const user = userOf(userId);
      if (user.keys.get(key.hash)) user.keys.set(key.hash, key);
      voidTokens(user);
    },
    async raise(hours) {
      for (const hour of hours) {
        const user = users.peek(hour.userId);
        if (user !== undefined) raiseHour(user, hour);
      }
    },
  };
}

/** Others make room for it. One that Postgres tells of doesn't: it may be hours old, and the present one would be the farthest from it. */
function openPresentHour(user: LedgerUser, windowStartSeconds: number): Hour {
  const farthest = [...user.hours.keys()].sort(
    (one, other) => Math.abs(other - windowStartSeconds) - Math.abs(one - windowStartSeconds),
  );
  for (const start of farthest.slice(0, Math.max(0, farthest.length - HOURS_KEPT + 1))) user.hours.delete(start);
  return openHour(user, windowStartSeconds);
}

function openHour(user: LedgerUser, windowStartSeconds: number): Hour {
  const fresh = { counted: 0, returned: 0, direct: 0, directReturned: 0, keys: null };
  user.hours.set(windowStartSeconds, fresh);
  return fresh;
}

function raiseHour(
  user: LedgerUser,
  { keyId, windowStartSeconds, mirrored, returned, direct, directReturned }: QuotaHour,
): void {
  const all = user.hours.get(windowStartSeconds) ?? openHour(user, windowStartSeconds);
  const hour = keyId === undefined ? all : unitsOf(all, keyId);
  hour.counted = Math.max(hour.counted, mirrored);
  hour.returned = Math.max(hour.returned, returned);
  hour.direct = Math.max(hour.direct, direct);
  hour.directReturned = Math.max(hour.directReturned, directReturned);
}
