"""Counts, which become Ray metrics once a second, off the hot path."""
