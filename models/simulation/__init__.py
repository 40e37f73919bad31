"""The simulated city: demand, signals, the SUMO environment and the controllers in it."""
