-- A tenant's sessions, oldest first. ARGV: tenant, `-inf` or `(` and the beginning of the last one seen, how many, now.
local theirs, most, now, found, from = p .. 't:' .. ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), {}, 0
while #found < most do
  local names = redis.call('ZRANGEBYSCORE', theirs, ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', from, most)
  if #names == 0 then break end
  for i = 1, #names, 2 do
    local key = session(ARGV[1] .. ':' .. names[i])
    local over = ends(key)
    if over and over > now and #found < most then found[#found + 1] = { names[i], names[i + 1], show(key, '') } end
  end
  from = from + #names / 2
end
return found
