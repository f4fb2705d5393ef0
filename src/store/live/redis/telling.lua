-- One instance at a time tells a session in brief. ARGV: id, and for how many milliseconds at most; nothing when it is done.
local key = p .. 'b:' .. ARGV[1]
if ARGV[2] == '' then return redis.call('DEL', key) end
return redis.call('SET', key, '1', 'NX', 'PX', ARGV[2]) and 1 or 0
