"""What was measured of contenders, its medians, and the bars that ratios of them have to reach."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, ge, le

COMPARISONS = {">=": ge, "<=": le}


@dataclass(frozen=True)
class Figures:
    """One load on one contender in one round.

    Attributes:
        per_s: predictions per second; as many requests, unless one carries several.
        cpu_s: CPU seconds of all processes of the contender per 1,000 predictions.
        other_cores: that were at work meanwhile for neither the contender nor its load, or for
            other machines of the host.
    """

    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_s: float
    other_cores: float = 0.0


@dataclass(frozen=True)
class Turn:
    """One contender in one round: started, loaded, stopped.

    Attributes:
        start_s: from its command to its first answer.
        memory_bytes: of all its processes, at the end of the plain loads.
        loads: by name of the load.
    """

    start_s: float
    memory_bytes: int
    processes: int
    loads: Mapping[str, Figures]


Turns = Mapping[str, Sequence[Turn]]
"""By name of the contender, one a round."""


def median(turns: Sequence[Turn], figure: str) -> float:
    """Return the median of a figure of the turn itself."""
    return float(statistics.median(map(attrgetter(figure), turns)))


def median_under(turns: Sequence[Turn], load: str, figure: str) -> float | None:
    """Return the median of a figure under a load; None if the load was not measured."""
    values = [getattr(turn.loads[load], figure) for turn in turns if load in turn.loads]
    return float(statistics.median(values)) if values else None


@dataclass(frozen=True)
class Bar:
    """What the ratio of two medians has to reach.

    Attributes:
        peer_load: where the peer is the contender itself under another load.
    """

    contender: str
    figure: str
    load: str
    peer: str
    comparison: str
    ratio: float
    peer_load: str | None = None

    def measured(self, turns: Turns) -> float | None:
        """Return the ratio; None if one side of it was not measured."""
        own = median_under(turns.get(self.contender, ()), self.load, self.figure)
        peer = median_under(turns.get(self.peer, ()), self.peer_load or self.load, self.figure)
        return None if own is None or peer is None else own / peer

    def is_met_by(self, ratio: float) -> bool:
        return bool(COMPARISONS[self.comparison](ratio, self.ratio))
