-- Hands over sessions that are over, each to one. ARGV: now, how many, and from when on somebody else may tell of them.
-- Answers the era, how many sessions were lost, and those that are over.
local now, found = tonumber(ARGV[1]), {}
local lost = sweep(now, ARGV[2])
for _, left in ipairs(redis.call('ZRANGEBYSCORE', p .. 'ended', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])) do
  local it = show(p .. 'e:' .. left, '')
  if it then
    redis.call('ZADD', p .. 'ended', ARGV[3], left)
    found[#found + 1] = { left, redis.call('HGET', p .. 'e:' .. left, 'why'), it }
  else
    redis.call('ZREM', p .. 'ended', left)
  end
end
return { redis.call('GET', p .. 'era') or '', lost, found }
