"""The plot of a run: load, replicas, latency and moves over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from load_tests.autoscaling.watch import Look


def plot(path: Path, looks: Sequence[Look]) -> None:
    """Write the picture; its ending says in which format."""
    figure = Figure(figsize=(7.2, 6.4), layout="constrained")
    load, replicas, latency, moves = figure.subplots(4, 1, sharex=True)
    at = [look.at_s for look in looks]
    load.step(at, [look.controllers for look in looks], where="post", color="#d95f02")
    load.set_ylabel("controllers")
    rate = load.twinx()
    rate.plot(at, [look.requests_per_s for look in looks], color="#1b9e77", lw=1)
    rate.set_ylabel("requests/s", color="#1b9e77")
    replicas.step(at, [look.replicas for look in looks], where="post", color="#7570b3")
    replicas.set_ylabel("replicas")
    replicas.set_ylim(0, max(look.replicas for look in looks) + 0.5)
    latency.plot(at, [look.p50_ms for look in looks], label="p50", color="#1f78b4")
    latency.plot(at, [look.p95_ms for look in looks], label="p95", color="#a6cee3")
    latency.set_ylabel("latency, ms")
    latency.set_ylim(bottom=0)
    latency.legend(frameon=False)
    moves.step(at, [look.moves for look in looks], where="post", color="#666666")
    moves.set_ylabel("moved states")
    moves.set_xlabel("seconds")
    for axes in (load, replicas, latency, moves):
        axes.spines["top"].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else None)
