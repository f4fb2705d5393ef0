-- Puts a changed session in the place of what it was made from. ARGV: id, now, wall, the version it was made from; then what it is
-- now: version, data, bytes, ttl; and `visit` when that counts as coming back.
local id, now, key = ARGV[1], tonumber(ARGV[2]), session(ARGV[1])
expire(id, now)
local held = redis.call('HGET', key, 'v')
if not held then return { 'gone', false } end
-- A change whose answer was lost on its way is sent again.
if held == ARGV[5] then return { 'done', show(key, ARGV[5]) } end
if held ~= ARGV[4] then return { 'changed', false } end
redis.call('HSET', key, 'v', ARGV[5], 'd', ARGV[6], 'ttl', ARGV[8])
count(id, ARGV[7], redis.call('HGET', key, 'at'))
if ARGV[9] == 'visit' then visit(id, now, tonumber(ARGV[3])) else note(id, now) end
return { 'done', show(key, ARGV[5]) }
