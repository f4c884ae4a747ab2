// The steps of the ledger as Lua: each touches one key, the user's hash, so each is atomic and at home in one slot of a cluster.
//
// Fields of the hash: `limit` (scans per hour), `k:HASH` (the key's id, or `-` once it was revoked), `q:START` (units given here in
// the hour that began then), `b:START` (those that came back), `p:START` and `r:START` (the same of Postgres), `g` (void tokens differ
// from it).
// The clock is Redis's own. The offset that is added to it (seconds) is 0 but in tests.
import { script } from '../store/redis/client.js';
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
 * ARGV: key hash or empty, offset, units asked for. Returns 3 (revoked) or 2 (missing) alone, or: how many were taken, limit,
 * counted, returned, direct, start, now.
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
local limit, counted, returned = tonumber(has[1]), tonumber(has[2] or 0), tonumber(has[3] or 0)
local direct = tonumber(has[4] or 0) - tonumber(has[5] or 0)
local taken = math.min(tonumber(ARGV[3]), limit - counted + returned - direct)
if taken <= 0 then return {0, limit, counted, returned, direct, start, now} end
if not has[2] then
  local kept, known = {}, {}
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local began = tonumber(string.match(field, '^[qbpr]:(%d+)$'))
    if began and began ~= start and not known[began] then
      known[began] = true
      table.insert(kept, began)
    end
  end
  table.sort(kept, function(one, other) return math.abs(one - start) < math.abs(other - start) end)
  for i = ${HOURS_KEPT}, #kept do
    redis.call('HDEL', KEYS[1], 'q:' .. kept[i], 'b:' .. kept[i], 'p:' .. kept[i], 'r:' .. kept[i])
  end
  redis.call('EXPIRE', KEYS[1], ${RECORD_SECONDS})
end
return {taken, limit, redis.call('HINCRBY', KEYS[1], q, taken), returned, direct, start, now}
`);

/** ARGV: start of the hour. Returns limit, counted, returned, direct; or nothing when the hour is gone. */
export const giveBackScript = script(`
local start = ARGV[1]
local has = redis.call('HMGET', KEYS[1], 'limit', 'q:' .. start, 'b:' .. start, 'p:' .. start, 'r:' .. start)
if not has[1] or not has[2] then return {} end
local counted, returned = tonumber(has[2]), tonumber(has[3] or 0)
if returned < counted then returned = redis.call('HINCRBY', KEYS[1], 'b:' .. start, 1) end
return {tonumber(has[1]), counted, returned, tonumber(has[4] or 0) - tonumber(has[5] or 0)}
`);

/** ARGV: a value that nobody else has. Returns the token. */
export const beginScript = script(`
if redis.call('HSETNX', KEYS[1], 'g', ARGV[1]) == 1 then redis.call('EXPIRE', KEYS[1], ${RECORD_SECONDS}) end
return redis.call('HGET', KEYS[1], 'g')
`);

/** ARGV: token, key hash or empty, key id, limit, then start, mirrored, returned, direct, direct returned of each hour. Returns whether it was taken over. */
export const fillScript = script(`${RAISE}
if redis.call('HGET', KEYS[1], 'g') ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then redis.call('HSETNX', KEYS[1], 'k:' .. ARGV[2], ARGV[3]) end
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

/** ARGV: start, mirrored, returned, direct, direct returned of each hour. A user whom Redis doesn't know is filled in with the next request. */
export const raiseScript = script(`${RAISE}
if redis.call('EXISTS', KEYS[1]) == 1 then raise(1) end
return 1
`);
