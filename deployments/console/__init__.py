"""The live console: what the system does, as it does it, in a browser."""
