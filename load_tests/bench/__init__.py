"""Benchmarks: every figure beside that of a peer in the same run."""
