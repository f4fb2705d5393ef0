-- ARGV: id, now, wall, known version; then the session if it is new: version, data, bytes, ttl; then most sessions of its
-- tenant, most bytes of all, and how many to take out first where there are too many.
local id, now, wall = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local key, tenant = session(id), split(id)
expire(id, now)
if redis.call('EXISTS', key) == 1 then
  visit(id, now, wall)
  return { 'there', show(key, ARGV[4]), 0 }
end
local theirs = p .. 't:' .. tenant
local most = tonumber(ARGV[9])
if redis.call('ZCARD', theirs) >= most then sweep(now, ARGV[11]) end
local first = redis.call('ZRANGE', p .. 'due', 0, 0, 'WITHSCORES')
local wait = first[2] and whole(math.max(first[2] - now, 0)) or '0'
if redis.call('ZCARD', theirs) >= most then return { 'many', false, wait } end
if tonumber(redis.call('HGET', p .. 'bytes', '') or '0') >= tonumber(ARGV[10]) then return { 'full', false, wait } end
redis.call('HSET', key, 'v', ARGV[5], 'd', ARGV[6], 'born', ARGV[2], 'seen', ARGV[2], 'ttl', ARGV[8],
  'acc', ARGV[3], 'at', ARGV[3])
count(id, ARGV[7], ARGV[3])
note(id, now)
return { 'begun', show(key, ARGV[5]), 0 }
