-- Requests for wrk, chosen by name: wrk ... -s requests.lua URL -- NAME [OPTION=VALUE ...]
--   runs=N      each request belongs to a random one of N simulation runs (default: to the run "default")
--   steps=N     steps of each junction in one call of predict_many (default: 1)
--   rows=N      rows of one call of infer, each of another run (default: 512)
--   prefixes=A,B  each request goes to a random one of these path prefixes
--   pause_ms=N  pause of each connection between two requests: a constant rate, however fast the answers are
--   log=1       with one connection: a line for each response, RESPONSE STATUS MICROSECONDS CODE RETRY_AFTER
local ffi = require("ffi")
ffi.cdef("typedef struct { long s, ns; } time; int clock_gettime(int, time *);")
local junctions = {
  {"joinedS_265580996_300839357", 19}, {"300839359", 8}, {"265580972", 8}, {"1270712555", 8}, {"8541180897", 8},
}
local options = {}

local function map(list, make)
  local made = {}
  for i, each in ipairs(list) do made[i] = make(each, i) end
  return made
end

local function observation(junction, i)
  local values = {}
  for v = 1, junction[2] do values[v] = string.format("%.3f", ((i * 7 + v * 3) % 11) / 10) end
  return "[" .. table.concat(values, ",") .. "]"
end

local function item(junction, i)
  return string.format('{"junction_id":"%s","obs_data":%s}', junction[1], observation(junction, i))
end

local function decision(shown)
  return function(junction, i)
    local reds = i == 1 and "[0,12,30,48]" or "[0,34]"
    local lamps = shown and string.format(',"shown":{"phase":0,"greenSeconds":20,"redSeconds":%s}', reds) or ""
    return string.format('{"junctionId":"%s","observations":%s%s}', junction[1], observation(junction, i), lamps)
  end
end

local function hour_of_samples(junction, i)
  local samples = {}
  for minute = 1, 60 do
    samples[minute] = string.format('{"timestamp":%d,"vehicle_count":%d,"avg_speed":%.1f,"occupancy":%.4f}',
      1774000000 + 60 * minute, 12 + (i * 5 + minute * 3) % 17, 30 + (minute * i) % 9, 0.03 + (minute % 7) / 200)
  end
  return string.format('{"junction_id":"%s","historical_data":[%s]}', junction[1], table.concat(samples, ","))
end

local function three_hours_of_density(_, i)
  local rows = {}
  for hour = 1, 3 do
    local values = {}
    for edge = 1, 5 do values[edge] = string.format("%.2f", 8 + ((i * 7 + hour * 5 + edge * 3) % 31)) end
    rows[hour] = "[" .. table.concat(values, ",") .. "]"
  end
  return '{"data":[' .. table.concat(rows, ",") .. "]}"
end

-- Posts the bodies in turn, or at random where each belongs to a random run.
local function post(bodies)
  local turn, runs, prefixes = 0, tonumber(options.runs), {}
  for prefix in string.gmatch(options.prefixes or "", "[^,]+") do prefixes[#prefixes + 1] = prefix .. wrk.path end
  wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
  return function()
    turn = runs and math.random(#bodies) or turn % #bodies + 1
    if runs then wrk.headers["X-Simulation-Run"] = "run-" .. math.random(runs) end
    return wrk.format(nil, prefixes[1] and prefixes[math.random(#prefixes)], nil, bodies[turn])
  end
end

-- Rows of 19 values for the five junctions in turn, as 32-bit floats.
local function packed_observations(rows)
  local values = ffi.new("float[?]", rows * 19)
  for i = 0, rows * 19 - 1 do values[i] = ((i * 7) % 11) / 10 end
  return ffi.string(values, rows * 19 * 4)
end

local function packed_agents(rows)
  local agents = ffi.new("int32_t[?]", rows)
  for i = 0, rows - 1 do agents[i] = i % #junctions end
  return ffi.string(agents, rows * 4)
end

-- Calls of the Open Inference Protocol with binary tensors; the header has the keys of all rows.
local function infer(rows)
  local runs = {}
  for i = 1, rows do
    local run = "run-" .. i
    runs[i] = ffi.string(ffi.new("uint32_t[1]", #run), 4) .. run
  end
  local columns = {
    {"observation", "FP32", rows .. ",19", packed_observations(rows)},
    {"agent_index", "INT32", rows, packed_agents(rows)},
    {"run", "BYTES", rows, table.concat(runs)},
  }
  local inputs = map(columns, function(each)
    return string.format('{"name":"%s","datatype":"%s","shape":[%s],"parameters":{"binary_data_size":%d}}',
      each[1], each[2], each[3], #each[4])
  end)
  local header = '{"parameters":{"binary_data_output":true},"inputs":[' .. table.concat(inputs, ",") .. "]}"
  local body = header .. table.concat(map(columns, function(each) return each[4] end))
  wrk.method, wrk.headers["Inference-Header-Content-Length"] = "POST", #header
  local turn, first = 0, math.random(2 ^ 40)
  return function()
    turn = turn + 1
    wrk.headers["Idempotency-Key"] = string.format("%d.%d", first, turn)
    return wrk.format(nil, nil, nil, body)
  end
end

local kinds = {
  infer = function() return infer(tonumber(options.rows or 512)) end,
  predict = function() return post(map(junctions, item)) end,
  predict_many = function()
    local items = table.concat(map(junctions, item), ",")
    return post({'{"items":[' .. items .. string.rep("," .. items, (options.steps or 1) - 1) .. "]}"})
  end,
  decide = function() return post(map(junctions, decision(false))) end,
  decide_safely = function() return post(map(junctions, decision(true))) end,
  density = function() return post(map(junctions, three_hours_of_density)) end,
  flow = function() return post(map(junctions, hour_of_samples)) end,
  fetch_loan = function()  -- of those that bench/forecasts_records.py has created
    return function()
      return wrk.format("GET", string.format("%s?mobileNumber=%d", wrk.path, 5000000000 + math.random(0, 999)))
    end
  end,
  create_loan = function()  -- numbers count up from the clock, a million a second, so no two runs share one
    local mobile = (os.time() * 1000000) % 10000000000
    return function()
      mobile = (mobile + 1) % 10000000000
      return wrk.format("POST", string.format("%s?mobileNumber=%010.0f", wrk.path, mobile))
    end
  end,
}

-- Logs the time of each response, with status 0 where the connection broke instead.
local function log_responses()
  local make, now, calls, sent = request, ffi.new("time"), 0, nil
  local function clock_us()
    ffi.C.clock_gettime(1, now)
    return tonumber(now.s) * 1e6 + tonumber(now.ns) / 1e3
  end
  local function log(status, headers)
    io.write(string.format("RESPONSE %d %d %s %s\n", status, clock_us() - sent,
      headers["X-Error-Code"] or headers["x-error-code"] or "", headers["Retry-After"] or headers["retry-after"] or ""))
    io.flush()
    sent = nil
  end
  function request()
    calls = calls + 1
    if sent then log(0, {}) end
    local bytes = make()
    sent = calls > 1 and clock_us() or nil  -- the first call is wrk's own look at a request
    return bytes
  end
  response = log
end

function init(arguments)
  for i = 2, #arguments do
    local name, value = string.match(arguments[i], "^([%a_]+)=(.*)$")
    options[name] = value
  end
  local token = os.getenv("INFERENCE_TOKEN")
  if token and not wrk.headers["Authorization"] then wrk.headers["Authorization"] = "Bearer " .. token end
  request = kinds[arguments[1]]()
  if options.log then log_responses() end
  if options.pause_ms then
    local pause_ms = tonumber(options.pause_ms)
    function delay() return pause_ms end
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"errors":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
