-- wrk: as predict_for_runs.lua, of as many runs as the environment's RUNS says
runs = tonumber(os.getenv("RUNS"))
require("predict_for_runs")
