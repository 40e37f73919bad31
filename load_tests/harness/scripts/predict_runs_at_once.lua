-- wrk: asks the inference service for all five junctions of one of 200 runs in one call; for as many steps of them as
-- the global times says, if there is one
require("result")
local items = {}
for _ = 1, times or 1 do
  for _, each in ipairs(require("observations")) do
    items[#items + 1] = string.format('{"junction_id":"%s","obs_data":%s}', each[1], each[2])
  end
end
local body = '{"items":[' .. table.concat(items, ",") .. ']}'
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request()
  wrk.headers["X-Simulation-Run"] = "run-" .. math.random(200)
  return wrk.format(nil, nil, nil, body)
end
