"""The road network as its user describes it: which junctions there are, and what they may do."""
