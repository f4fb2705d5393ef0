-- ARGV: id, the id it is to have, now, wall.
local id, to, now = ARGV[1], ARGV[2], tonumber(ARGV[3])
expire(to, now)
if redis.call('EXISTS', session(to)) == 1 then return { 'taken', false } end
expire(id, now)
local bytes, at = redis.call('HGET', p .. 'w', id), redis.call('HGET', session(id), 'at')
if not at then return { 'gone', false } end
uncount(id)
redis.call('RENAME', session(id), session(to))
count(to, bytes or '0', at)
visit(to, now, tonumber(ARGV[4]))
return { 'moved', show(session(to), '') }
