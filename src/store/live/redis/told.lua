-- An end was told; nothing of the session is left. ARGV: what it was handed over as.
redis.call('DEL', p .. 'e:' .. ARGV[1])
return redis.call('ZREM', p .. 'ended', ARGV[1])
