// The steps of the ledger as Lua: each touches one key, the user's hash, so each is atomic and at home in one slot of a cluster.
//
// Fields of the hash: `limit` (scans per hour), `k:HASH` (the key's id, or `-` once it was revoked; behind the id what the key may, when that
// is less than what its account may: KeyRules.text), `q:START` (units given here in the hour that began then), `b:START` (those that came
// back), `p:START` and `r:START` (the same of Postgres), these four as `q:START:ID` for a key with a limit of its own, `g` (void tokens
// differ from it).
// The clock is Redis's own. The offset that is added to it (seconds) is 0 but in tests.
import { script } from '../store/redis/place.js';
import { HOURS_KEPT, RECORD_KEYS_MAX, RECORD_SECONDS } from './ledger.js';

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
export const takeScript = script(`
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
`);

/**
 * ARGV: start of the hour, id of a key that was counted for itself or empty. Returns limit, counted, returned, direct, and for such a key
 * counted, returned, direct; or nothing when the hour is gone.
 */
export const giveBackScript = script(`
local function back(of)
  local has = redis.call('HMGET', KEYS[1], 'q:' .. of, 'b:' .. of, 'p:' .. of, 'r:' .. of)
  local counted, returned = tonumber(has[1] or 0), tonumber(has[2] or 0)
  if returned < counted then returned = redis.call('HINCRBY', KEYS[1], 'b:' .. of, 1) end
  return counted, returned, tonumber(has[3] or 0) - tonumber(has[4] or 0)
end
local has = redis.call('HMGET', KEYS[1], 'limit', 'q:' .. ARGV[1])
if not has[1] or not has[2] then return {} end
local reply = {tonumber(has[1]), back(ARGV[1])}
if ARGV[2] ~= '' then
  for _, count in ipairs({back(ARGV[1] .. ':' .. ARGV[2])}) do table.insert(reply, count) end
end
return reply
`);

/** ARGV: a value that nobody else has. Returns the token. */
export const beginScript = script(`
if redis.call('HSETNX', KEYS[1], 'g', ARGV[1]) == 1 then redis.call('EXPIRE', KEYS[1], ${RECORD_SECONDS}) end
return redis.call('HGET', KEYS[1], 'g')
`);

/**
 * ARGV: token, key hash or empty, what `k:HASH` is to be, limit, then start (or `START:ID` of a key), mirrored, returned, direct, direct
 * returned of each hour. Returns whether it was taken over.
 */
export const fillScript = script(`${RAISE}
if redis.call('HGET', KEYS[1], 'g') ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'k:' .. ARGV[2]) ~= '-' then redis.call('HSET', KEYS[1], 'k:' .. ARGV[2], ARGV[3]) end
redis.call('HSET', KEYS[1], 'limit', ARGV[4])
raise(5)
keep()
return 1
`);

/**
 * ARGV: key hash, a value that nobody else has. A record with too many keys forgets them all. Tokens are void from here on, so what
 * is filled in next was read from Postgres after this key had ended there.
 */
export const revokeScript = script(`${RAISE}
if redis.call('HLEN', KEYS[1]) > ${RECORD_KEYS_MAX} then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 2) == 'k:' then redis.call('HDEL', KEYS[1], field) end
  end
end
redis.call('HSET', KEYS[1], 'k:' .. ARGV[1], '-', 'g', ARGV[2])
keep()
return 1
`);

/** ARGV: limit, a value that nobody else has. */
export const setLimitScript = script(`${RAISE}
if redis.call('HEXISTS', KEYS[1], 'limit') == 1 then redis.call('HSET', KEYS[1], 'limit', ARGV[1]) end
redis.call('HSET', KEYS[1], 'g', ARGV[2])
keep()
return 1
`);

/** ARGV: key hash, what `k:HASH` is to be, a value that nobody else has. A key that isn't known is filled in with its next request. */
export const setKeyScript = script(`${RAISE}
local known = redis.call('HGET', KEYS[1], 'k:' .. ARGV[1])
if known and known ~= '-' then redis.call('HSET', KEYS[1], 'k:' .. ARGV[1], ARGV[2]) end
redis.call('HSET', KEYS[1], 'g', ARGV[3])
keep()
return 1
`);

/** ARGV: start (or `START:ID` of a key), mirrored, returned, direct, direct returned of each hour. A user whom Redis doesn't know is filled in with the next request. */
export const raiseScript = script(`${RAISE}
if redis.call('EXISTS', KEYS[1]) == 1 then raise(1) end
return 1
`);
