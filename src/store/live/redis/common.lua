-- What all scripts share. A script is one step for everybody who shares this Redis.
--
--   KEYS[1]            what all names begin with
--   s:<tenant>:<name>  a session: v version, d data, born seen ttl (microseconds of this server), acc last access, at beginning
--   w                  bytes of each session by id (<tenant>:<name>); whoever is in it is counted
--   t:<tenant>         names of a tenant's sessions by their beginning
--   bytes              bytes of each tenant's sessions, and of all under the empty name
--   due                ids by the time at which they are over
--   e:<id>:<v>         a session that was taken out, until somebody has told of its end
--   ended              those by the time from which somebody may tell
--   b:<id>             somebody is telling a session in brief
--   a:<tenant>         what instances counted of a tenant's sessions
--   era                a name that is lost with everything else
local p = KEYS[1]
local AGE_MAX = 7 * 24 * 3600 * 1000000
-- A session's own TTL ends it this many milliseconds late: whoever sweeps was there before.
local SPARE = 3600 * 1000
-- Ends that nobody tells for a week are not told any more.
local UNTOLD_MAX = 7 * 24 * 3600 * 1000

local function whole(number) return string.format('%.0f', number) end

local function session(id) return p .. 's:' .. id end

local function split(id) return string.match(id, '^(.*):([^:]*)$') end

-- When a session is over, and why.
local function ends(key)
  local lease = redis.call('HMGET', key, 'born', 'seen', 'ttl')
  if not lease[1] then return nil end
  local by_ttl, by_age = lease[2] + lease[3], lease[1] + AGE_MAX
  if by_age <= by_ttl then return by_age, 'cap' end
  return by_ttl, 'ttl'
end

local function count(id, bytes, at)
  local tenant, name = split(id)
  local before = redis.call('HGET', p .. 'w', id) or '0'
  redis.call('HSET', p .. 'w', id, bytes)
  redis.call('ZADD', p .. 't:' .. tenant, at, name)
  redis.call('HINCRBY', p .. 'bytes', tenant, whole(bytes - before))
  redis.call('HINCRBY', p .. 'bytes', '', whole(bytes - before))
end

local function uncount(id)
  redis.call('ZREM', p .. 'due', id)
  local bytes = redis.call('HGET', p .. 'w', id)
  if not bytes then return end
  local tenant, name = split(id)
  redis.call('HDEL', p .. 'w', id)
  redis.call('ZREM', p .. 't:' .. tenant, name)
  if redis.call('HINCRBY', p .. 'bytes', '', whole(0 - bytes)) == 0 then redis.call('HDEL', p .. 'bytes', '') end
  if redis.call('ZCARD', p .. 't:' .. tenant) == 0 then
    redis.call('HDEL', p .. 'bytes', tenant)
  else
    redis.call('HINCRBY', p .. 'bytes', tenant, whole(0 - bytes))
  end
end

-- Notes when a session will be over.
local function note(id, now)
  local over = ends(session(id))
  redis.call('ZADD', p .. 'due', whole(over), id)
  redis.call('PEXPIRE', session(id), whole(math.max((over - now) / 1000, 0) + SPARE))
end

-- Its visitor came back.
local function visit(id, now, wall)
  local seen = redis.call('HMGET', session(id), 'seen', 'acc')
  redis.call('HSET', session(id), 'seen', whole(math.max(seen[1], now)), 'acc', whole(math.max(seen[2], wall)))
  note(id, now)
end

-- Takes a session out. Somebody may tell of its end from `free` on.
local function finish(id, why, free)
  local key = session(id)
  uncount(id)
  if redis.call('EXISTS', key) == 0 then return nil end
  local left = id .. ':' .. redis.call('HGET', key, 'v')
  redis.call('RENAME', key, p .. 'e:' .. left)
  redis.call('HSET', p .. 'e:' .. left, 'why', why)
  redis.call('PEXPIRE', p .. 'e:' .. left, UNTOLD_MAX)
  redis.call('ZADD', p .. 'ended', free, left)
  return left
end

-- Takes a session out whose time is over.
local function expire(id, now)
  local over, why = ends(session(id))
  if over and over <= now then finish(id, why, '0') end
end

-- Takes those out whose time is over. Answers how many were not there any more.
local function sweep(now, limit)
  local lost = 0
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', p .. 'due', '-inf', whole(now), 'LIMIT', 0, limit)) do
    if redis.call('EXISTS', session(id)) == 0 then
      uncount(id)
      lost = lost + 1
    else
      expire(id, now)
    end
  end
  return lost
end

-- A session as it is; its data only for who does not know this version.
local function show(key, known)
  local it = redis.call('HMGET', key, 'v', 'born', 'seen', 'ttl', 'acc')
  if not it[1] then return false end
  local data = it[1] ~= known and redis.call('HGET', key, 'd')
  return { it[1], data, it[2], it[3], it[4], it[5] }
end
