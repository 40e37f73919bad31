-- wrk: as predict_runs_at_once.lua, twenty steps of all five junctions in one call
times = 20
require("predict_runs_at_once")
