-- Key space (bus/keys.py): KEYS[1] a tenant's hash of bytes {run id, ..., total}, KEYS[2] its open runs and KEYS[3] those
-- without a writer, sorted sets of run ids by the time when their logs expire (ms).
-- ARGV: expiry in ms, budget in bytes, then three values a run: its id, the bytes that Redis holds of it, and 'open' or
-- 'left'.
--
-- Puts these runs into the tenant's account, and takes those whose logs have expired out of it. While the account is
-- over the budget, the runs without a writer leave it, the oldest first. Answers with the total and the ids of the runs
-- that left: the caller deletes their logs.

local held, open, left = KEYS[1], KEYS[2], KEYS[3]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for i, kind in ipairs({'hash', 'zset', 'zset'}) do  -- any client of this Redis can write anything there
  if redis.call('TYPE', KEYS[i]).ok ~= kind then redis.call('DEL', KEYS[i]) end
end
local total = tonumber(redis.call('HGET', held, 'total') or '') or 0

local function forget(run)
  total = total - (tonumber(redis.call('HGET', held, run) or '') or 0)
  redis.call('HDEL', held, run)
  redis.call('ZREM', open, run)
  redis.call('ZREM', left, run)
end

for _, runs in ipairs({open, left}) do
  for _, run in ipairs(redis.call('ZRANGEBYSCORE', runs, '-inf', now, 'LIMIT', 0, 1000)) do forget(run) end
end
for i = 3, #ARGV, 3 do
  forget(ARGV[i])
  redis.call('HSET', held, ARGV[i], ARGV[i + 1])
  redis.call('ZADD', ARGV[i + 2] == 'open' and open or left, now + ARGV[1], ARGV[i])
  total = total + ARGV[i + 1]
end
local dropped = {}
while total > tonumber(ARGV[2]) and #dropped < 1000 do
  local oldest = redis.call('ZRANGE', left, 0, 0)[1]
  if not oldest then break end
  forget(oldest)
  dropped[#dropped + 1] = oldest
end
redis.call('HSET', held, 'total', total)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
return {total, dropped}
