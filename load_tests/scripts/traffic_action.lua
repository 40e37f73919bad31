-- wrk: the five junctions in turn, with observations of their own sizes
local junctions = {
  {"joinedS_265580996_300839357", 19}, {"300839359", 8}, {"265580972", 8}, {"1270712555", 8}, {"8541180897", 8},
}
local bodies = {}
for i, junction in ipairs(junctions) do
  local values = {}
  for v = 1, junction[2] do values[v] = string.format("%.3f", ((i * 7 + v * 3) % 11) / 10) end
  bodies[i] = string.format('{"junctionId":"%s","observations":[%s]}', junction[1], table.concat(values, ","))
end
local turn = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request()
  turn = turn % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[turn])
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"errors":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
