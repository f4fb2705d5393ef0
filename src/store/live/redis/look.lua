-- ARGV: id, now, wall, known version, `visit` when its visitor came back.
expire(ARGV[1], tonumber(ARGV[2]))
local key = session(ARGV[1])
if redis.call('EXISTS', key) == 0 then return false end
if ARGV[5] == 'visit' then visit(ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])) end
return show(key, ARGV[4])
