"""SUMO's files: networks read and made into network files, drawn, and given traffic from counts."""
