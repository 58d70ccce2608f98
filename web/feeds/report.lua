-- Key space (bus/keys.py): KEYS[1] the viewers of a tenant, a hash {process: "<ms when it expires> <counts as JSON>"}.
-- ARGV: this process's id, its counts as JSON or nothing where it has no viewers, ms that a report counts.
--
-- Stores this process's report, removes expired ones, and answers with the counts of the other processes. Times are
-- Redis's own, since the clocks of machines differ. A report that expires later than a new one was written before
-- Redis's clock was set back.
local time, lives_ms = redis.call('TIME'), tonumber(ARGV[3])
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s', now + lives_ms, ARGV[2]))
end
local others, found = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  if found[i] ~= ARGV[1] then
    local expires, counts = string.match(found[i + 1], '^(%d+) (.*)$')
    local left = (tonumber(expires) or 0) - now
    if left > 0 and left <= lives_ms then
      others[#others + 1] = counts
    else
      redis.call('HDEL', KEYS[1], found[i])
    end
  end
end
redis.call('PEXPIRE', KEYS[1], lives_ms)
return others
