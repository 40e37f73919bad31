"""Faults on a running system, and a check of what its clients saw meanwhile."""
