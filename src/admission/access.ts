// From the credentials of a request to what it may: an X-API-KEY header or a signed-in user in, an admission with its refund out; for what a key may ask beside scans a
// live one, and so many reads in a second; and the routes that say what is left of the hour.
import { z } from 'zod';
import { KEY_SCOPES, type KeyScope, limitOf, type Plans, SUSPENDED_LIMIT } from '../config/plans.js';
import { Failure } from '../errors.js';
import {
  type AuthenticateKey,
  type Caller,
  type CallerRoute,
  callerRoute,
  type GuardedOperation,
  type KeyRoute,
} from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import { jsonAnswer } from '../http/openapi.js';
import { READS_PER_SECOND } from '../limits.js';
import { hashOfKey } from '../store/keys.js';
import type { SqlOf } from '../store/postgres.js';
import type { RedisCommands, Script } from '../store/redis/redis.js';
import { guarded, StoreAway } from '../store/store-error.js';
import { createRate } from '../waiting/limiter.js';
import { WireTime, wireTime } from '../wire-text.js';
import { type Admission, type KeyRecord, REMEMBERED_MAX } from './admission.js';
import type { AdmissionStore } from './admissions.js';
import type { FindKey } from './key-owners.js';

export type Access = Admission | { readonly outcome: 'keyMissing' | 'accountSuspended' };

interface EarlyWork {
  /** This user (an id) is likely to be admitted. */
  begin(userId: string): void;
}

/** A user whose access token was accepted is not suspended. */
type User = Pick<Caller, 'userId' | 'plan' | 'ownLimit'>;

export type AccessControl = ReturnType<typeof createAccess>;

const KEY = /^[0-9a-f]{32}$/;

/**
 * For answers that cost nothing: the key is asked for, and no unit is taken. `find` looks the key up by its hash; null: it isn't a live one.
 * `scope`: what it has to be for; null: for anything. Throws Failure `keyMissing`, `keyInvalid`, `accountSuspended`, `scopeMissing` or `unavailable`.
 */
export async function liveKey(header: string | undefined, find: FindKey, scope: KeyScope | null): Promise<KeyRecord> {
  const key = header?.trim() ?? '';
  if (key === '') throw new Failure('keyMissing');
  const record = KEY.test(key) ? await find(hashOfKey(key)) : null;
  if (record === null) throw new Failure('keyInvalid');
  if (record.hourlyLimit === SUSPENDED_LIMIT) throw new Failure('accountSuspended');
  if (scope !== null && record.rules?.allows(scope) === false) throw new Failure('scopeMissing', scope);
  return record;
}

export function createAccess(store: AdmissionStore, plans: Plans) {
  return {
    /**
     * Takes one unit when the key is live. Rejects with Failure('unavailable') when nobody can tell. What is known here is answered at once;
     * otherwise work that nobody else sees may begin beside the question, where its answer is likely.
     */
    withApiKey(header: string | undefined, work?: EarlyWork): Access | Promise<Access> {
      const key = header?.trim() ?? '';
      if (key === '') return { outcome: 'keyMissing' };
      if (!KEY.test(key)) return { outcome: 'keyInvalid' };
      const keyHash = hashOfKey(key);
      const admission = store.admit(keyHash);
      if (!(admission instanceof Promise)) return accessOf(admission);
      const expected = work === undefined ? null : store.expectedUser(keyHash);
      if (expected !== null) work?.begin(expected);
      return admission.then(accessOf);
    },
    /** The user (an id) whose key that is or was, where this process remembers. It admits nobody. */
    knownUser(header: string | undefined): string | null {
      const key = header?.trim() ?? '';
      return KEY.test(key) ? store.knownUser(hashOfKey(key)) : null;
    },
    /** The user (an id) for whom a scan with that key would be admitted, as far as this process knows; null: it asks. It takes nothing. */
    expectedUser(header: string | undefined): string | null {
      const key = header?.trim() ?? '';
      return KEY.test(key) ? store.expectedUser(hashOfKey(key)) : null;
    },
    /** Counts, for the user's use by hour, a scan that was refused before its admission. */
    refuse: store.refuse,
    /** Takes one unit of a user whose access token was accepted. */
    async asUser({ userId, plan, ownLimit }: User): Promise<Access> {
      const hourlyLimit = limitOf(plans, { plan, ownLimit, isSuspended: false });
      return accessOf(await store.admitUser({ userId, hourlyLimit }));
    },
  };
}

/** A unit that an account was given while it was being suspended is of an hour that it can't use. */
function accessOf(admission: Admission): Access {
  const isSuspended = 'quota' in admission && admission.quota.limit === SUSPENDED_LIMIT;
  return isSuspended ? { outcome: 'accountSuspended' } : admission;
}

export function createKeyAccess(find: FindKey, rate: ReadRate): AuthenticateKey {
  return async ({ headers }) => {
    const key = await liveKey(headers.get('x-api-key'), find, 'read');
    const waitSeconds = await rate(key.userId);
    if (waitSeconds > 0) throw new Failure('tooManyRequests', `${READS_PER_SECOND} a second`, waitSeconds);
    return key;
  };
}

/** Counts one question of an account. 0: it may be asked; otherwise it didn't count, and the whole seconds until one may. */
type ReadRate = (userId: string) => number | Promise<number>;

const EVERY_MS = 1000 / READS_PER_SECOND;

const now = performance.now.bind(performance);

/** `redis` null: there is none. `clock`: milliseconds that only grow. */
export function createReadRate(redis: Pick<RedisCommands, 'run'> | null, clock = now): ReadRate {
  const here = createRate({ burst: READS_PER_SECOND, everyMs: EVERY_MS, subjectsMax: REMEMBERED_MAX }, clock);
  if (redis === null) return (userId) => here.take(userId);
  return async (userId) => {
    try {
      return z.int().parse(await redis.run(rateScript, `sluice:r:{u:${userId}}`, EVERY_MS, READS_PER_SECOND));
    } catch (error) {
      if (!(error instanceof StoreAway)) throw error;
      return here.take(userId);
    }
  };
}

/** As waiting/limiter.ts has it in this process, by Redis's clock. ARGV: milliseconds for each, and how many at once. */
const rateScript: Script = {
  type: 'string',
  text: `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local next = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0)) + ARGV[1]
local wait = next - now - ARGV[1] * ARGV[2]
if wait > 0 then return math.ceil(wait / 1000) end
redis.call('SET', KEYS[1], next, 'PX', math.ceil(next - now))
return 0
`,
};

interface AccountRouteParts {
  readonly admission: Pick<AdmissionStore, 'quotaOf'>;
  readonly sqlOf: SqlOf;
}

const Account = z
  .object({
    plan: z.string(),
    hourlyLimit: z.int().min(1).describe('Scans per hour.'),
    remaining: z
      .int()
      .min(0)
      .describe('Scans that the account has left in this hour; a key with a limit of its own may have fewer.'),
    resetTime: z.int().describe('End of the hour, in epoch seconds.'),
    key: z
      .object({
        uuid: z.guid(),
        name: z.string(),
        expires: WireTime.nullable().describe('From then on it is refused; null: never.'),
        hourlyLimit: z.int().nullable().describe('Scans per hour of this key alone; null: as many as the account has.'),
        scopes: z.array(z.enum(KEY_SCOPES)),
      })
      .describe('The key that was sent.'),
  })
  .meta({ id: 'Account' });

export function createAccountRoute({ admission, sqlOf }: AccountRouteParts): KeyRoute {
  return {
    name: 'GET /api/v1/account',
    operation: {
      id: 'getAccount',
      summary: 'The account of the key, and what is left of its hour',
      description: 'Takes no unit, so it is also the way to find out whether a key is good.',
      tag: 'account',
      responses: { 200: jsonAnswer('As it is now.', Account) },
    },
    async handle({ userId, keyId, hourlyLimit, rules }) {
      const sql = sqlOf(userId);
      const [quota, [row]] = await Promise.all([
        admission.quotaOf({ userId, hourlyLimit }),
        guarded(
          sql<{ plan: string; name: string }[]>`
            SELECT u.plan, k.name FROM users u JOIN api_keys k ON k.user_id = u.id WHERE k.id = ${keyId}`,
        ),
      ]);
      // The account has ended at this moment.
      if (row === undefined) throw new Failure('keyInvalid');
      const expiresAt = rules?.expiresAtSeconds ?? null;
      const { limit, remaining, resetEpochSeconds } = quota;
      const account: z.infer<typeof Account> = {
        plan: row.plan,
        hourlyLimit: limit,
        remaining,
        resetTime: resetEpochSeconds,
        key: {
          uuid: keyId,
          name: row.name,
          expires: expiresAt === null ? null : wireTime(expiresAt * 1000),
          hourlyLimit: rules?.hourlyLimit ?? null,
          scopes: [...(rules?.scopes ?? KEY_SCOPES)],
        },
      };
      return jsonReply(200, account);
    },
  };
}

interface QuotaRouteParts {
  readonly admission: Pick<AdmissionStore, 'quotaOf' | 'lastDay'>;
  readonly plans: Plans;
}

const Hour = z
  .object({
    limit: z.int().min(1).describe('Scans per hour.'),
    remaining: z.int().min(0).describe('Scans left in this hour.'),
    resetTime: z.int().describe('End of the hour, in epoch seconds.'),
  })
  .meta({ id: 'QuotaHour' });

const Hours = z
  .array(
    z.object({
      hour: WireTime.describe('Its beginning, in UTC.'),
      used: z.int().min(0).describe('Units.'),
      refused: z.int().min(0).describe('Scans that were refused since all units were used.'),
    }),
  )
  .length(24)
  .meta({ id: 'QuotaHours' });

export function createQuotaRoutes({ admission, plans }: QuotaRouteParts): CallerRoute[] {
  const now: CallerRoute = callerRoute('GET /web/quota', quotaOperation, async ({ userId, plan, ownLimit }) => {
    const quota = await admission.quotaOf({
      userId,
      hourlyLimit: limitOf(plans, { plan, ownLimit, isSuspended: false }),
    });
    const { limit, remaining, resetEpochSeconds: resetTime } = quota;
    const hour: z.infer<typeof Hour> = { limit, remaining, resetTime };
    return jsonReply(200, hour);
  });
  const hours: CallerRoute = callerRoute('GET /web/quota/hours', hoursOperation, async ({ userId }) => {
    const day = await guarded(admission.lastDay(userId));
    const view: z.infer<typeof Hours> = day.map(({ windowStartSeconds, ...counts }) => ({
      hour: wireTime(windowStartSeconds * 1000),
      ...counts,
    }));
    return jsonReply(200, view);
  });
  return [now, hours];
}

const hoursOperation: GuardedOperation = {
  summary: 'Units and refusals of the last 24 hours',
  description:
    'By UTC hour, the oldest first, this one last. Units that came back are not in it. Other nodes are a few seconds behind.',
  tag: 'scans',
  responses: { 200: jsonAnswer('The hours.', Hours) },
};

const quotaOperation: GuardedOperation = {
  summary: 'What is left of your hourly quota',
  description: 'Asking takes no unit. The answer of every scan says the same in its `X-RateLimit` headers.',
  tag: 'scans',
  responses: { 200: jsonAnswer('The hour as it is now.', Hour) },
};
