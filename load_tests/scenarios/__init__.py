"""Scenarios of clients, run by Locust and judged by gates."""
