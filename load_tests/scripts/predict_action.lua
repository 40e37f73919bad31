-- wrk: the five junctions in turn, with observations of their own sizes
require("result")
local junctions = {
  {"joinedS_265580996_300839357", 19}, {"300839359", 8}, {"265580972", 8}, {"1270712555", 8}, {"8541180897", 8},
}
local bodies = {}
for i, junction in ipairs(junctions) do
  local values = {}
  for v = 1, junction[2] do values[v] = string.format("%.3f", ((i * 7 + v * 3) % 11) / 10) end
  bodies[i] = string.format('{"junction_id":"%s","obs_data":[%s]}', junction[1], table.concat(values, ","))
end
post_in_turn(bodies)
