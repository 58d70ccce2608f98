-- Key space (bus/keys.py): KEYS[1] the run's stream, KEYS[2] its meta hash {fence, last, bytes}.
-- ARGV: fence, first number, last number, body as signed (bus/journal/live/signatures.py), channel, expiry in ms, byte budget, sealed_to.
--
-- Publishes one body of events and appends it. Any client of this Redis can write anything into both keys, so
-- readers get the body whatever these hold: it is signed, and they merge by number. Answers with the bytes that the
-- run holds, where nothing else is to be said, or with these after one of:
--   stale    a later owner wrote already, as far as Redis knows; not appended
--   same     this very body is here already (a resent batch)
--   missing  appended, but what came before is neither here nor in SQL: the writer seals at once what it holds
--   full     appended, but over half of the byte budget even without what SQL has: the writer seals early
-- or with Redis's own error where it takes no writes (out of memory, a replica).
-- When the meta hash is gone (Redis lost its memory) the fence shown is adopted. An entry above ours is a
-- stranger's (ours stand in order): the stream is begun again, and the answer is ``missing``. So is a meta hash that
-- holds no numbers, or names a last number whose entry is not here.

-- What the stream takes after a trim, by Redis's own scales; where it may not be asked, as if entries were alike.
local function weigh(bytes, before)
  local weight = redis.pcall('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', '0')
  if type(weight) == 'number' then return weight end
  return math.floor(bytes * redis.call('XLEN', KEYS[1]) / before)
end

redis.call('PUBLISH', ARGV[5], ARGV[4])

local meta = redis.pcall('HMGET', KEYS[2], 'fence', 'last', 'bytes')
if meta.err then  -- no hash
  redis.call('DEL', KEYS[2])
  meta = {}
end
local fence, last = tonumber(meta[1] or '') or tonumber(ARGV[1]), tonumber(meta[2] or '') or 0
local bytes = tonumber(meta[3] or '') or 0
if tonumber(ARGV[1]) < fence then return {'stale', bytes} end

local id, is_new = ARGV[3] .. '-0', not meta[1]
if last >= tonumber(ARGV[3]) then
  local held = redis.pcall('XRANGE', KEYS[1], id, id)
  if held[1] and held[1][2][2] == ARGV[4] then return {'same', bytes} end
  last = 0
end
local added = redis.pcall('XADD', KEYS[1], id, 'e', ARGV[4])
if type(added) == 'table' and added.err then
  local is_above = string.find(added.err, 'smaller', 1, true) or string.find(added.err, 'exhausted', 1, true)
  if not (is_above or string.find(added.err, 'WRONGTYPE', 1, true)) then
    return added
  end
  redis.call('DEL', KEYS[1])
  redis.call('XADD', KEYS[1], id, 'e', ARGV[4])
  last, bytes, is_new = 0, 0, true
end
bytes = bytes + #ARGV[4]
local answer = 'ok'
if tonumber(ARGV[2]) > math.max(last, tonumber(ARGV[8])) + 1 then answer = 'missing' end
local budget = tonumber(ARGV[7])
if bytes > budget / 2 then
  local before = redis.call('XLEN', KEYS[1])
  redis.call('XTRIM', KEYS[1], 'MINID', (tonumber(ARGV[8]) + 1) .. '-0')
  bytes = weigh(bytes, before)
  if bytes > budget / 2 then answer = 'full' end
  local length = redis.call('XLEN', KEYS[1])
  while bytes > budget and length > 1 do  -- SQL does not keep up: the oldest go, as if Redis had lost them
    redis.call('XTRIM', KEYS[1], 'MAXLEN', math.max(1, math.floor(length * budget / 2 / bytes)))
    bytes = weigh(bytes, length)
    length = redis.call('XLEN', KEYS[1])
  end
end
redis.call('HSET', KEYS[2], 'fence', ARGV[1], 'last', ARGV[3], 'bytes', bytes)
if is_new then
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
if answer == 'ok' then return bytes end
return {answer, bytes}
