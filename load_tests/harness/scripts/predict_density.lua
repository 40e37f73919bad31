-- wrk: three hours of five edges, a few rush hours in turn
require("result")
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
post_in_turn(bodies)
