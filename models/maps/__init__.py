"""Road networks as they are drawn: where junctions, roads and lanes lie, and phases in words."""
