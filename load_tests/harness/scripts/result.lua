-- What every script ends with: one line for load_tests/harness/wrk.py, and requests that take turns.
local token = os.getenv("INFERENCE_TOKEN")
if token and not wrk.headers["Authorization"] then wrk.headers["Authorization"] = "Bearer " .. token end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"errors":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end

function post_in_turn(bodies)
  local turn = 0
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  function request()
    turn = turn % #bodies + 1
    return wrk.format(nil, nil, nil, bodies[turn])
  end
end
