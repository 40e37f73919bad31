"""Developer tools: what is generated from the code, and kept current by tests. Not installed."""
