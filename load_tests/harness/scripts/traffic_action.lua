-- wrk: asks the gateway for the five junctions in turn
require("result")
local bodies = {}
for i, each in ipairs(require("observations")) do
  bodies[i] = string.format('{"junctionId":"%s","observations":%s}', each[1], each[2])
end
post_in_turn(bodies)
