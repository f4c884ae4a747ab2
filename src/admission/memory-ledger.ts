// The ledger in this process: exact for one node. No step has an await in it, that is what makes it atomic.
import { type RecentTable, recentTable } from '../recent-table.js';
import { type QuotaHour, REMEMBERED_MAX, windowStart } from './admission.js';
import { type Facts, HOUR_KEPT_SECONDS, type Ledger, RECORD_KEYS_MAX } from './ledger.js';

interface Hour {
  counted: number;
  direct: number;
}

interface User {
  limit: number | null;
  /** Key hash to whether it is live. */
  readonly keys: Map<string, boolean>;
  readonly hours: Map<number, Hour>;
  token: number;
}

/** The user who asked least recently is forgotten, with the counts. What is in Postgres stays. */
export function createMemoryLedger(clock: () => number, usersMax: number = REMEMBERED_MAX): Ledger {
  const users = recentTable<User>(usersMax);
  return {
    ...countsOf(users, clock),
    ...factsOf(users),
    // This process asks its own memory for them first (key-owners.ts).
    ownerOf: async () => null,
    rememberOwner: async () => undefined,
  };
}

type Users = RecentTable<User>;

function countsOf(users: Users, clock: () => number): Pick<Ledger, 'take' | 'look' | 'giveBack'> {
  return {
    take(userId, keyHash) {
      const user = users.get(userId);
      if (user === undefined || user.limit === null) return { kind: 'missing' };
      if (keyHash !== null) {
        const live = user.keys.get(keyHash);
        if (live === undefined) return { kind: 'missing' };
        if (!live) return { kind: 'revoked' };
      }
      const nowSeconds = Math.floor(clock() / 1000);
      const windowStartSeconds = windowStart(nowSeconds);
      const hour = hourOf(user, windowStartSeconds);
      const { limit } = user;
      const kind = hour.counted + hour.direct < limit ? 'taken' : 'exhausted';
      if (kind === 'taken') hour.counted += 1;
      const { counted, direct } = hour;
      return { kind, limit, counted, direct, windowStartSeconds, nowSeconds };
    },
    async look(userId) {
      const user = users.get(userId);
      if (user === undefined || user.limit === null) return null;
      const nowSeconds = Math.floor(clock() / 1000);
      const windowStartSeconds = windowStart(nowSeconds);
      const { counted = 0, direct = 0 } = user.hours.get(windowStartSeconds) ?? {};
      return { limit: user.limit, counted, direct, windowStartSeconds, nowSeconds };
    },
    async giveBack(userId, windowStartSeconds) {
      const user = users.peek(userId);
      const hour = user?.hours.get(windowStartSeconds);
      if (user === undefined || user.limit === null || hour === undefined) return null;
      hour.counted = Math.max(0, hour.counted - 1);
      return { limit: user.limit, ...hour, windowStartSeconds };
    },
  };
}

/** What Postgres says of keys, limits and hours. */
function factsOf(users: Users): Pick<Ledger, 'begin' | 'fill' | 'revoke' | 'setLimit' | 'raise'> {
  let tokens = 0;

  function userOf(userId: string): User {
    const known = users.get(userId);
    if (known !== undefined) return known;
    tokens += 1;
    const user: User = { limit: null, keys: new Map(), hours: new Map(), token: tokens };
    users.set(userId, user);
    return user;
  }

  function voidTokens(user: User): void {
    tokens += 1;
    user.token = tokens;
  }

  return {
    async begin(userId) {
      return String(userOf(userId).token);
    },
    async fill(userId, token, { key, hourlyLimit, hours }: Facts) {
      const user = userOf(userId);
      if (String(user.token) !== token) return false;
      user.limit = hourlyLimit;
      if (key !== null && !user.keys.has(key.hash)) user.keys.set(key.hash, true);
      for (const hour of hours) raiseHour(user, hour);
      return true;
    },
    async revoke(userId, keyHash) {
      const user = userOf(userId);
      // As in Redis: what is filled in next was read after the key had ended.
      if (user.keys.size > RECORD_KEYS_MAX) user.keys.clear();
      user.keys.set(keyHash, false);
      voidTokens(user);
    },
    async setLimit(userId, hourlyLimit) {
      const user = userOf(userId);
      if (user.limit !== null) user.limit = hourlyLimit;
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

/** Only the hours next to this one are kept: a clock that is set back over the full hour must find its counters. */
function hourOf(user: User, windowStartSeconds: number): Hour {
  const known = user.hours.get(windowStartSeconds);
  if (known !== undefined) return known;
  for (const start of user.hours.keys()) {
    if (Math.abs(start - windowStartSeconds) >= HOUR_KEPT_SECONDS) user.hours.delete(start);
  }
  const fresh = { counted: 0, direct: 0 };
  user.hours.set(windowStartSeconds, fresh);
  return fresh;
}

function raiseHour(user: User, { windowStartSeconds, mirrored, direct }: QuotaHour): void {
  const hour = hourOf(user, windowStartSeconds);
  hour.counted = Math.max(hour.counted, mirrored);
  hour.direct = Math.max(hour.direct, direct);
}
