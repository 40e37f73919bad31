-- wrk: as predict_for_runs.lua, of three systems in a random order
paths = {"/apart-1/predict_action", "/apart-2/predict_action", "/apart-3/predict_action"}
require("predict_for_runs")
