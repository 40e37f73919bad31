"""Faults on a running system, and the judgement of what its clients saw meanwhile."""
