-- wrk: three hours of five edges, a few rush hours in turn
local bodies = {}
for i = 1, 5 do
  local rows = {}
  for hour = 1, 3 do
    local values = {}
    for edge = 1, 5 do values[edge] = string.format("%.2f", 8 + ((i * 7 + hour * 5 + edge * 3) % 31)) end
    rows[hour] = "[" .. table.concat(values, ",") .. "]"
  end
  bodies[i] = '{"data":[' .. table.concat(rows, ",") .. "]}"
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
