"""Calls of the inference service: one client over two transports, a breaker, shared calls."""
