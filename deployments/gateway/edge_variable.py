"""How the launcher tells a gateway where the edge is, in a module that costs it no import."""

EDGE_VARIABLE = "GREENWAVE_EDGE"
"""Environment variable with the base URL of an edge on the same node that leads to all of Serve."""
