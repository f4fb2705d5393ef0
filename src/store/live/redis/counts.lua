-- What all instances have counted of a tenant. ARGV: tenant.
return redis.call('HGETALL', p .. 'a:' .. ARGV[1])
