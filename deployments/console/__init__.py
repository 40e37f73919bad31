"""The live console: the state of the system in a browser."""
