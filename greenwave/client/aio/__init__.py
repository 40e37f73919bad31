"""The client for an event loop."""
