"""Turns as the tests of the comparison make them."""

from __future__ import annotations

from load_tests.bench.comparison.figures import Figures, Turn


def turn(start_s: float = 1.0, memory_bytes: int = 100_000_000, **per_s: float) -> Turn:
    """Return a turn with a load by each name, at which latencies are 1,000 / the throughput."""
    loads = {
        name: Figures(rate, p50_ms=1000 / rate, p99_ms=2000 / rate, cpu_s=500 / rate)
        for name, rate in per_s.items()
    }
    return Turn(start_s, memory_bytes, processes=2, loads=loads)


TURNS = {
    "ours": [turn(few=400, many=900), turn(few=1000, many=900), turn(few=500, many=900)],
    "peer": [turn(few=250, many=300)],
    "broken": [turn(few=100)],
}
