-- wrk: a full hour of one-minute samples, the five junctions in turn
require("result")
local junctions = {"joinedS_265580996_300839357", "300839359", "265580972", "1270712555", "8541180897"}
local bodies = {}
for i, junction in ipairs(junctions) do
  local samples = {}
  for minute = 1, 60 do
    samples[minute] = string.format('{"timestamp":%d,"vehicle_count":%d,"avg_speed":%.1f,"occupancy":%.4f}',
      1774000000 + 60 * minute, 12 + (i * 5 + minute * 3) % 17, 30 + (minute * i) % 9, 0.03 + (minute % 7) / 200)
  end
  bodies[i] = string.format('{"junction_id":"%s","historical_data":[%s]}', junction, table.concat(samples, ","))
end
post_in_turn(bodies)
