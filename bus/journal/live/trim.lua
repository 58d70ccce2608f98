-- Key space (bus/keys.py): KEYS[1] a run's stream, KEYS[2] its meta hash {fence, last, bytes}.
-- ARGV: fence, sealed_to.
--
-- Removes the entries that SQL has, unless a later owner writes. Answers with the bytes that the stream takes then.

local meta = redis.call('HMGET', KEYS[2], 'fence', 'bytes')
if not meta[1] then return 0 end
if (tonumber(meta[1]) or 0) > tonumber(ARGV[1]) then return tonumber(meta[2]) or 0 end
local before = redis.call('XLEN', KEYS[1])
redis.call('XTRIM', KEYS[1], 'MINID', (ARGV[2] + 1) .. '-0')
local bytes = redis.pcall('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', '0')
if type(bytes) ~= 'number' then
  bytes = math.floor((tonumber(meta[2]) or 0) * redis.call('XLEN', KEYS[1]) / math.max(before, 1))
end
redis.call('HSET', KEYS[2], 'bytes', bytes)
return bytes
