-- ARGV: a tenant, or nothing for all. Answers how many sessions, and how many bytes.
local sessions = ARGV[1] == '' and redis.call('HLEN', p .. 'w') or redis.call('ZCARD', p .. 't:' .. ARGV[1])
return { sessions, tonumber(redis.call('HGET', p .. 'bytes', ARGV[1]) or '0') }
