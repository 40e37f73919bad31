"""The plot of growth: latency, memory and recovery over the number of hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Size:
    """What was measured at a number of hidden states."""

    states: int
    p50_ms: float
    p99_ms: float
    replica_mb: float
    actor_mb: float
    first_step_s: float
    new_state_s: float


def plot(path: Path, sizes: Sequence[Size]) -> None:
    """Write the picture; its ending says in which format."""
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    latency, memory, recovery = figure.subplots(1, 3, sharex=True)
    _lines(latency, sizes, "latency of one request, ms", p50="p50_ms", p99="p99_ms")
    _lines(memory, sizes, "memory, MB", replica="replica_mb", **{"state actor": "actor_mb"})
    _lines(
        recovery,
        sizes,
        "seconds after kill -9 of the state actor",
        **{"a step of a state that is held": "first_step_s", "a new state": "new_state_s"},
    )
    figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else None)


def _lines(axes: Any, sizes: Sequence[Size], title: str, **figures: str) -> None:
    for label, figure in figures.items():
        values = [getattr(size, figure) for size in sizes]
        axes.plot([size.states for size in sizes], values, marker="o", ms=3, lw=1, label=label)
    axes.set_title(title, fontsize="medium")
    axes.set_xscale("log")
    axes.set_xlabel("hidden states")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
