"""Calls of the inference service: a client, a breaker, a batcher and connections."""
