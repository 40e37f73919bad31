"""Road networks of others: read from SUMO, made into network files, drawn."""
