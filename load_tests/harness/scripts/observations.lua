-- JSON arrays by junction: an observation of its own size each, as {junction, array}
local sizes = {
  {"joinedS_265580996_300839357", 19}, {"300839359", 8}, {"265580972", 8}, {"1270712555", 8}, {"8541180897", 8},
}
local observations = {}
for i, junction in ipairs(sizes) do
  local values = {}
  for v = 1, junction[2] do values[v] = string.format("%.3f", ((i * 7 + v * 3) % 11) / 10) end
  observations[i] = {junction[1], "[" .. table.concat(values, ",") .. "]"}
end
return observations
