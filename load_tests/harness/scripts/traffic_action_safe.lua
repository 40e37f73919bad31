-- wrk: asks the gateway for the five junctions in turn, and says what they show
require("result")
local bodies = {}
for i, each in ipairs(require("observations")) do
  local reds = i == 1 and "[0,12,30,48]" or "[0,34]"
  bodies[i] = string.format(
    '{"junctionId":"%s","observations":%s,"shown":{"phase":0,"greenSeconds":20,"redSeconds":%s}}',
    each[1], each[2], reds
  )
end
post_in_turn(bodies)
