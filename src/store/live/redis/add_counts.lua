-- Adds to what all instances count: hash a:<tenant>. ARGV: tenant, what, how many, `largest` or nothing; and so on.
for i = 1, #ARGV, 4 do
  local key, what, n = p .. 'a:' .. ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if ARGV[i + 3] == '' then
    redis.call('HINCRBY', key, what, n)
  elseif tonumber(n) > tonumber(redis.call('HGET', key, what) or '0') then
    redis.call('HSET', key, what, n)
  end
end
return #ARGV / 4
