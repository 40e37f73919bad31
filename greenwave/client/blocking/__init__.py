"""The client for threads."""
