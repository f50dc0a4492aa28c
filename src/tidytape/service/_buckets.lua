-- One request to one bucket, of which all happens or nothing: tidytape.budget.TokenBucket, on the server.
--
-- KEYS[1]  the bucket, a list. Its head says how it stands, "at missing used"; behind it is what was taken in the last
--          60 s, "at weight", oldest first: at most burst + budget entries, as no more can be taken in that time. It is
--          one key so that it lives, expires and is evicted as one. No key is a bucket that is full.
-- ARGV     weight to take, weight to give back, budget [weight per min], burst [weight], time [us] or "" for the
--          server's own
--
-- Returns  whether it was taken, then time, at [us], missing and used [weight].
--
-- Numbers are doubles here, exact while they are whole and at most 2^53. Epoch microseconds are, until the year 2255;
-- nanoseconds are not. A token is 60e6 units, one of which flows in per microsecond and per weight of the budget, so
-- bursts up to 150 million are exact. Nothing is divided: what is shown is worked out by who asked, in integers.

local WINDOW = 60000000 -- 60 s [us]
local CLOCK_WAS_SET = 1000000 -- 1 s [us]
local TOKEN = 60000000 -- [unit]

local bucket = KEYS[1]
local take, back = tonumber(ARGV[1]), tonumber(ARGV[2])
local per_minute, burst = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = tonumber(ARGV[5])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Lua itself writes numbers with 14 digits, which is too few.
local function written(...)
  local words = {}
  for i, number in ipairs({...}) do
    words[i] = string.format('%.0f', number)
  end
  return table.concat(words, ' ')
end

local function read(text)
  local numbers = {}
  for word in string.gmatch(text, '%d+') do
    numbers[#numbers + 1] = tonumber(word)
  end
  return unpack(numbers)
end

local at, missing, used = now, 0, 0
local state = redis.call('LPOP', bucket)
if state then
  at, missing, used = read(state)
end

-- A clock that was set back: the bucket goes on from there, as full as it was.
if now < at - CLOCK_WAS_SET then
  local taken = redis.call('LRANGE', bucket, 0, -1)
  redis.call('DEL', bucket)
  for _, entry in ipairs(taken) do
    local since, weight = read(entry)
    redis.call('RPUSH', bucket, written(math.max(0, since + now - at), weight))
  end
  at = now
end

-- What flowed in. A product beyond 2^53 is rounded, but it is more than any bucket can miss.
if now > at then
  missing = math.max(0, missing - (now - at) * per_minute)
  at = now
end

-- What has left the window.
local oldest = redis.call('LINDEX', bucket, 0)
while oldest do
  local since, weight = read(oldest)
  if since > at - WINDOW then
    break
  end
  redis.call('LPOP', bucket)
  used = used - weight
  oldest = redis.call('LINDEX', bucket, 0)
end

local admitted = take * TOKEN <= burst * TOKEN - missing
if admitted and take > 0 then
  missing = missing + take * TOKEN
  used = used + take
  redis.call('RPUSH', bucket, written(at, take))
end

-- What is given back comes off what was taken last.
missing = math.max(0, missing - back * TOKEN)
while back > 0 do
  local newest = redis.call('RPOP', bucket)
  if not newest then
    break
  end
  local since, weight = read(newest)
  local returned = math.min(weight, back)
  if weight > returned then
    redis.call('RPUSH', bucket, written(since, weight - returned))
  end
  used = used - returned
  back = back - returned
end

redis.call('LPUSH', bucket, written(at, missing, used))
-- Once it is full and nothing of it is in the window, there is nothing to remember. [ms]
local forgotten = at - now + math.max(missing / per_minute, WINDOW)
redis.call('PEXPIRE', bucket, written(math.ceil(forgotten / 1000)))
return {admitted and 1 or 0, now, at, missing, used}
