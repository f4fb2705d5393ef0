-- Takes a session out. ARGV: id, now, why it ends, and from when on somebody else may tell of it; nothing where nobody is to be told.
local id, key = ARGV[1], session(ARGV[1])
expire(id, tonumber(ARGV[2]))
local it = show(key, '')
if not it then return false end
if ARGV[4] ~= '' then return { finish(id, ARGV[3], ARGV[4]), it } end
uncount(id)
redis.call('DEL', key)
return { '', it }
