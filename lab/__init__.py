"""The laboratory: SUMO's networks, simulation, evaluation and training; not for serving."""
