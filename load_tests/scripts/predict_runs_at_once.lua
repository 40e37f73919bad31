-- wrk: asks the inference service for all five junctions of one of 200 runs in one call
require("result")
local items = {}
for i, each in ipairs(require("observations")) do
  items[i] = string.format('{"junction_id":"%s","obs_data":%s}', each[1], each[2])
end
local body = '{"items":[' .. table.concat(items, ",") .. ']}'
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request()
  wrk.headers["X-Simulation-Run"] = "run-" .. math.random(200)
  return wrk.format(nil, nil, nil, body)
end
