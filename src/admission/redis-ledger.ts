// The ledger in Redis or Redis Cluster: one record per user, one round trip per step. The steps are Lua: each touches one key, the user's hash, so each
// is atomic and at home in one slot of a cluster.
//
// Fields of the hash: `limit` (scans per hour), `k:HASH` (the key's id, or `-` once it was revoked; behind the id what the key may, when that
// is less than what its account may: KeyRules.text), `q:START` (units given here in the hour that began then), `b:START` (those that came
// back), `p:START` and `r:START` (the same of Postgres), these four as `q:START:ID` for a key with a limit of its own, `g` (void tokens
// differ from it).
// The clock is Redis's own. The offset that is added to it (seconds) is 0 but in tests.
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { RedisCommands, Script } from '../store/redis/redis.js';
import { inBatches } from '../waiting/limiter.js';
import {
  type Count,
  HOURS_KEPT,
  type Ledger,
  type LedgerAnswer,
  type LedgerKey,
  type QuotaHour,
  RECORD_KEYS_MAX,
  RECORD_SECONDS,
  type Tally,
} from './admission.js';
import type { Seen } from './quota-hours.js';

/** Each count only grows: one that is there already may be newer than the one from Postgres. */
const RAISE = `
local function raise(from)
  for i = from, #ARGV, 5 do
    for j, name in ipairs({'q:', 'b:', 'p:', 'r:'}) do
      local told = tonumber(ARGV[i + j])
      local field = name .. ARGV[i]
      if told > tonumber(redis.call('HGET', KEYS[1], field) or 0) then redis.call('HSET', KEYS[1], field, told) end
    end
  end
end
local function keep() redis.call('EXPIRE', KEYS[1], ${RECORD_SECONDS}) end
`;

/**
 * ARGV: key hash or empty, offset, units asked for. Returns 3 (revoked) or 2 (missing) alone; or 4 (expired) or 5 (not for scans) with the
 * key's rules; or how many were taken, limit, counted, returned, direct, start, now. For a key with rules these follow, and limit, counted,
 * returned and direct of its own, the limit -1 where it has none.
 */
const takeScript: Script = {
  type: 'hash',
  text: `
local now = tonumber(redis.call('TIME')[1]) + tonumber(ARGV[2])
local start = now - now % 3600
local q = 'q:' .. start
local has = redis.call('HMGET', KEYS[1], 'limit', q, 'b:' .. start, 'p:' .. start, 'r:' .. start, 'k:' .. ARGV[1])
if ARGV[1] ~= '' then
  if has[6] == '-' then return 3 end
  if not has[6] then return 2 end
end
if not has[1] then return 2 end
local id, rules, expires, own, scopes = string.match(has[6] or '', '^(%S+) ((%S+) (%S+) (%S+))$')
if id then
  if expires ~= '-' and now >= tonumber(expires) then return {4, rules} end
  if not string.find(scopes, 'scan', 1, true) then return {5, rules} end
end
local limit, counted, returned = tonumber(has[1]), tonumber(has[2] or 0), tonumber(has[3] or 0)
local direct = tonumber(has[4] or 0) - tonumber(has[5] or 0)
local taken = math.min(tonumber(ARGV[3]), limit - counted + returned - direct)
local reply = {0, limit, counted, returned, direct, start, now}
if id then
  for at, value in ipairs({rules, -1, 0, 0, 0}) do reply[7 + at] = value end
  if own ~= '-' then
    local of = start .. ':' .. id
    local mine = redis.call('HMGET', KEYS[1], 'q:' .. of, 'b:' .. of, 'p:' .. of, 'r:' .. of)
    reply[9], reply[10], reply[11] = tonumber(own), tonumber(mine[1] or 0), tonumber(mine[2] or 0)
    reply[12] = tonumber(mine[3] or 0) - tonumber(mine[4] or 0)
    taken = math.min(taken, reply[9] - reply[10] + reply[11] - reply[12])
  end
end
if taken <= 0 then return reply end
if not has[2] then
  local kept, known = {}, {}
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local began = tonumber(string.match(field, '^[qbpr]:(%d+)'))
    if began and began ~= start then
      if not known[began] then
        known[began] = {}
        table.insert(kept, began)
      end
      table.insert(known[began], field)
    end
  end
  table.sort(kept, function(one, other) return math.abs(one - start) < math.abs(other - start) end)
  for i = ${HOURS_KEPT}, #kept do
    for _, field in ipairs(known[kept[i]]) do redis.call('HDEL', KEYS[1], field) end
  end
  redis.call('EXPIRE', KEYS[1], ${RECORD_SECONDS})
end
reply[1] = taken
reply[3] = redis.call('HINCRBY', KEYS[1], q, taken)
if id and own ~= '-' then reply[10] = redis.call('HINCRBY', KEYS[1], q .. ':' .. id, taken) end
return reply
`,
};

/** ARGV: start (or `START:ID` of a key). Returns limit, counted, returned, direct; or nothing where no unit that was given here is left to come back. */
const giveBackScript: Script = {
  type: 'hash',
  text: `
local of = ARGV[1]
local has = redis.call('HMGET', KEYS[1], 'limit', 'q:' .. of, 'b:' .. of, 'p:' .. of, 'r:' .. of)
local counted = tonumber(has[2] or 0)
if not has[1] or tonumber(has[3] or 0) >= counted then return {} end
return {tonumber(has[1]), counted, redis.call('HINCRBY', KEYS[1], 'b:' .. of, 1), tonumber(has[4] or 0) - tonumber(has[5] or 0)}
`,
};

/** ARGV: a value that nobody else has. Returns the token. */
const beginScript: Script = {
  type: 'hash',
  text: `
if redis.call('HSETNX', KEYS[1], 'g', ARGV[1]) == 1 then redis.call('EXPIRE', KEYS[1], ${RECORD_SECONDS}) end
return redis.call('HGET', KEYS[1], 'g')
`,
};

/**
 * ARGV: token, key hash or empty, what `k:HASH` is to be, limit, then start (or `START:ID` of a key), mirrored, returned, direct, direct
 * returned of each hour. Returns whether it was taken over.
 */
const fillScript: Script = {
  type: 'hash',
  text: `${RAISE}
if redis.call('HGET', KEYS[1], 'g') ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'k:' .. ARGV[2]) ~= '-' then redis.call('HSET', KEYS[1], 'k:' .. ARGV[2], ARGV[3]) end
redis.call('HSET', KEYS[1], 'limit', ARGV[4])
raise(5)
keep()
return 1
`,
};

/**
 * ARGV: key hash, a value that nobody else has. A record with too many keys forgets them all. Tokens are void from here on, so what
 * is filled in next was read from Postgres after this key had ended there.
 */
export const revokeScript: Script = {
  type: 'hash',
  text: `${RAISE}
if redis.call('HLEN', KEYS[1]) > ${RECORD_KEYS_MAX} then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 2) == 'k:' then redis.call('HDEL', KEYS[1], field) end
  end
end
redis.call('HSET', KEYS[1], 'k:' .. ARGV[1], '-', 'g', ARGV[2])
keep()
return 1
`,
};

/** ARGV: limit, a value that nobody else has. */
const setLimitScript: Script = {
  type: 'hash',
  text: `${RAISE}
if redis.call('HEXISTS', KEYS[1], 'limit') == 1 then redis.call('HSET', KEYS[1], 'limit', ARGV[1]) end
redis.call('HSET', KEYS[1], 'g', ARGV[2])
keep()
return 1
`,
};

/** ARGV: key hash, what `k:HASH` is to be, a value that nobody else has. A key that isn't known is filled in with its next request. */
const setKeyScript: Script = {
  type: 'hash',
  text: `${RAISE}
local known = redis.call('HGET', KEYS[1], 'k:' .. ARGV[1])
if known and known ~= '-' then redis.call('HSET', KEYS[1], 'k:' .. ARGV[1], ARGV[2]) end
redis.call('HSET', KEYS[1], 'g', ARGV[3])
keep()
return 1
`,
};

/** ARGV: start (or `START:ID` of a key), mirrored, returned, direct, direct returned of each hour. A user whom Redis doesn't know is filled in with the next request. */
export const raiseScript: Script = {
  type: 'hash',
  text: `${RAISE}
if redis.call('EXISTS', KEYS[1]) == 1 then raise(1) end
return 1
`,
};

interface RedisLedgerOptions {
  /** Added to the clock of Redis, in seconds; for tests that hold the hour. */
  readonly clockOffsetSeconds?: () => number;
}

/** Owners are read only while Postgres is away; nodes say them again every hour of use, so they outlive the user's record. */
const OWNER_SECONDS = RECORD_SECONDS + 2 * 3600;

const giveBackReply = z.union([z.tuple([]), z.tuple([z.int(), z.int(), z.int(), z.int()])]);
const ownerReply = z.object({ userId: z.string(), keyId: z.string() });

export function createRedisLedger(redis: RedisCommands, options: RedisLedgerOptions = {}): Ledger {
  const offset = options.clockOffsetSeconds ?? (() => 0);
  const takes = createTakeBatcher(
    (userId, keyHash, units) => redis.run(takeScript, recordOf(userId), keyHash ?? '', offset(), units),
    redis.together,
  );
  return {
    take: takes.take,
    look: async (userId) => hourOf(await redis.run(takeScript, recordOf(userId), '', offset(), 0)),
    async giveBack(userId, windowStartSeconds, keyId) {
      const answer = await redis.run(giveBackScript, recordOf(userId), fieldOf({ windowStartSeconds, keyId }));
      const reply = giveBackReply.parse(answer);
      if (reply.length === 0) return null;
      const [limit, counted, returned, direct] = reply;
      return { limit, counted, returned, direct, windowStartSeconds };
    },
    begin: async (userId) => z.string().parse(await redis.run(beginScript, recordOf(userId), randomUUID())),
    async fill(userId, token, { key, hourlyLimit, hours }) {
      const named = key === null ? ['', ''] : [key.hash, keyText(key)];
      const facts = [token, ...named, hourlyLimit, ...hours.flatMap(fieldsOf)];
      return (await redis.run(fillScript, recordOf(userId), ...facts)) === 1;
    },
    async revoke(userId, keyHash) {
      await redis.run(revokeScript, recordOf(userId), keyHash, randomUUID());
    },
    async setLimit(userId, hourlyLimit) {
      await redis.run(setLimitScript, recordOf(userId), hourlyLimit, randomUUID());
    },
    async setKey(userId, key) {
      await redis.run(setKeyScript, recordOf(userId), key.hash, keyText(key), randomUUID());
    },
    async raise(hours) {
      const step = (hour: QuotaHour) => redis.run(raiseScript, recordOf(hour.userId), ...fieldsOf(hour));
      await inBatches(hours, step, redis.together);
    },
    async ownerOf(keyHash) {
      const text = await redis.get(ownerKey(keyHash));
      return text === null ? null : ownerReply.parse(JSON.parse(text));
    },
    async rememberOwner(keyHash, { userId, keyId }) {
      await redis.set(ownerKey(keyHash), JSON.stringify({ userId, keyId }), OWNER_SECONDS);
    },
  };
}

/** The braces make Redis Cluster place it by the user alone. */
const recordOf = (userId: string): string => `sluice:{u:${userId}}`;

const ownerKey = (keyHash: string): string => `sluice:k:${keyHash}`;

const keyText = ({ keyId, rules }: LedgerKey): string => (rules === undefined ? keyId : `${keyId} ${rules.text}`);

const fieldOf = ({ windowStartSeconds, keyId }: Pick<Seen, 'windowStartSeconds' | 'keyId'>): string =>
  keyId === undefined ? String(windowStartSeconds) : `${windowStartSeconds}:${keyId}`;

function fieldsOf(hour: QuotaHour): (string | number)[] {
  const { mirrored, returned, direct, directReturned } = hour;
  return [fieldOf(hour), mirrored, returned, direct, directReturned];
}

/** Runs the script that takes `units`, and returns its reply. */
type TakeStep = (userId: string, keyHash: string | null, units: number) => Promise<unknown>;

interface Group {
  readonly userId: string;
  readonly keyHash: string | null;
  readonly waiting: { readonly resolve: (answer: LedgerAnswer) => void; readonly reject: (error: unknown) => void }[];
}

const refusedReply = z.union([z.literal(2), z.literal(3)]);
const boundedReply = z.tuple([z.union([z.literal(4), z.literal(5)]), z.string()]);
const countedReply = z.tuple([z.int().min(0), z.int(), z.int(), z.int(), z.int(), z.int(), z.int()]);
/** What follows it for a key with rules. */
const ownReply = z.tuple([z.string(), z.int(), z.int(), z.int(), z.int()]);
const COUNTED_LENGTH = 7;

/**
 * Takes the units that one user asks for in one turn of the event loop in one step. Half of the cost of a step is the same for any number.
 * `together` lets the steps that are begun in it travel as one.
 */
export function createTakeBatcher(step: TakeStep, together: (send: () => void) => void) {
  let groups = new Map<string, Group>();

  function sendAll(): void {
    const sent = [...groups.values()];
    groups = new Map();
    together(() => sent.forEach(send));
  }

  function send({ userId, keyHash, waiting }: Group): void {
    step(userId, keyHash, waiting.length)
      .then((reply) => answersOf(reply, waiting.length))
      .then(
        (answerOf) => {
          for (const [index, { resolve }] of waiting.entries()) resolve(answerOf(index));
        },
        (error: unknown) => {
          for (const { reject } of waiting) reject(error);
        },
      );
  }

  return {
    take(userId: string, keyHash: string | null): Promise<LedgerAnswer> {
      return new Promise((resolve, reject) => {
        if (groups.size === 0) setImmediate(sendAll);
        const name = `${userId} ${keyHash ?? ''}`;
        const group = groups.get(name);
        if (group === undefined) groups.set(name, { userId, keyHash, waiting: [{ resolve, reject }] });
        else group.waiting.push({ resolve, reject });
      });
    },
  };
}

/** The hour as the script sees it when it is asked for no unit; null: it doesn't know the user. */
function hourOf(reply: unknown): Omit<Count, 'kind'> | null {
  if (!Array.isArray(reply)) return null;
  const [, limit, counted, returned, direct, windowStartSeconds, nowSeconds] = countedReply.parse(reply);
  return { limit, counted, returned, direct, windowStartSeconds, nowSeconds };
}

/** The first request is served first, and each one sees the count after its own unit. */
function answersOf(reply: unknown, asked: number): (index: number) => LedgerAnswer {
  if (!Array.isArray(reply)) {
    const kind = refusedReply.parse(reply) === 3 ? 'revoked' : 'missing';
    return () => ({ kind });
  }
  if (reply.length === 2) {
    const [refusal, rules] = boundedReply.parse(reply);
    return () => ({ kind: refusal === 4 ? 'expired' : 'unscoped', rules });
  }
  const counts = reply.length === COUNTED_LENGTH ? reply : reply.slice(0, COUNTED_LENGTH);
  const [taken, limit, countedAfter, returned, direct, windowStartSeconds, nowSeconds] = countedReply.parse(counts);
  if (taken > asked) throw new Error(`${taken} units were taken, ${asked} asked for`);
  const after = (index: number, count: number): number => (index < taken ? count - taken + index + 1 : count);
  const countOf = (index: number): Count => {
    const kind = index < taken ? 'taken' : 'exhausted';
    return { kind, limit, counted: after(index, countedAfter), returned, direct, windowStartSeconds, nowSeconds };
  };
  if (counts === reply) return countOf;
  const [rules, ...own] = ownReply.parse(reply.slice(COUNTED_LENGTH));
  return (index) => {
    const tally = tallyOf(own);
    return { ...countOf(index), rules, own: tally && { ...tally, counted: after(index, tally.counted) } };
  };
}

function tallyOf([limit, counted, returned, direct]: [number, number, number, number]): Tally | undefined {
  return limit === -1 ? undefined : { limit, counted, returned, direct };
}
