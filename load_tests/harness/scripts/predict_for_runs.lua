-- wrk: asks the inference service for the five junctions of 200 runs in a random order, or of as many as the global runs
-- says; of one that begins with one of the global paths, if there are any
require("result")
local bodies = {}
for i, each in ipairs(require("observations")) do
  bodies[i] = string.format('{"junction_id":"%s","obs_data":%s}', each[1], each[2])
end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request()
  wrk.headers["X-Simulation-Run"] = "run-" .. math.random(runs or 200)
  return wrk.format(nil, paths and paths[math.random(#paths)], nil, bodies[math.random(#bodies)])
end
