-- wrk: asks the inference service for the five junctions in turn
require("result")
local bodies = {}
for i, each in ipairs(require("observations")) do
  bodies[i] = string.format('{"junction_id":"%s","obs_data":%s}', each[1], each[2])
end
post_in_turn(bodies)
