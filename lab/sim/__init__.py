"""The simulation: scenarios, the SUMO environment with its signals, and the controllers in it."""
