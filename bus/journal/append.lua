-- Key space (bus/keys.py): KEYS[1] the run's stream, KEYS[2] its meta hash {fence, last, bytes}.
-- ARGV: fence, first number, last number, body, channel, expiry in ms, byte budget, sealed_to.
--
-- Appends one body of events and publishes it. Answers:
--   stale    a later owner wrote already; nothing was done
--   same     these numbers are here already (a resent batch); nothing was done
--   missing  appended, but what came before is neither here nor in SQL: the writer seals at once what it holds
--   full     appended, but over the byte budget even without what SQL has: the writer seals early
--   ok
-- When the meta hash is gone (Redis lost its memory) the fence shown is adopted.
local meta = redis.call('HMGET', KEYS[2], 'fence', 'last', 'bytes')
local fence, last = tonumber(meta[1] or ARGV[1]), tonumber(meta[2] or '0')
local bytes = tonumber(meta[3] or '0')
if tonumber(ARGV[1]) < fence then return 'stale' end
if last >= tonumber(ARGV[3]) then return 'same' end

redis.call('XADD', KEYS[1], ARGV[3] .. '-0', 'e', ARGV[4])
redis.call('PUBLISH', ARGV[5], ARGV[4])
bytes = bytes + #ARGV[4]
local answer = 'ok'
if tonumber(ARGV[2]) > math.max(last, tonumber(ARGV[8])) + 1 then answer = 'missing' end
if bytes > tonumber(ARGV[7]) then
  local before = redis.call('XLEN', KEYS[1])
  redis.call('XTRIM', KEYS[1], 'MINID', (tonumber(ARGV[8]) + 1) .. '-0')
  bytes = math.floor(bytes * redis.call('XLEN', KEYS[1]) / before)
  if bytes > tonumber(ARGV[7]) then answer = 'full' end
end
redis.call('HSET', KEYS[2], 'fence', ARGV[1], 'last', ARGV[3], 'bytes', bytes)
if not meta[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
return answer
