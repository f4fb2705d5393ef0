-- ARGV: a new era's name. Answers seconds and microseconds of this server's clock, the era, and how many sessions there are.
redis.call('SET', p .. 'era', ARGV[1], 'NX')
local time = redis.call('TIME')
return { time[1], time[2], redis.call('GET', p .. 'era'), redis.call('HLEN', p .. 'w') }
