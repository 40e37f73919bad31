"""Clusters of several nodes on one machine, each in its own network namespace."""
