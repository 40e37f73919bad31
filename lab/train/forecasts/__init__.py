"""How the two traffic forecasts were made: simulated days, data sets, training, reports."""
