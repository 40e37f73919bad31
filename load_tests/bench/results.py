"""Figures of a benchmark, their medians over the rounds, and the ratios that they must reach."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import ge, le
from typing import Any

COMPARISONS = {">=": ge, "<=": le}

Figures = Mapping[str, float]


@dataclass
class Results:
    """What was measured, by subject and load; each round adds one set of figures.

    Attributes:
        subjects: in the order of their first figures.
        failures: why a subject is missing or incomplete, as sentences.
    """

    subjects: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _rounds: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)

    def add(self, subject: str, figures: Figures, load: str = "") -> None:
        """Add the figures of one round; without a load, those of the subject itself."""
        if subject not in self.subjects:
            self.subjects.append(subject)
        self._rounds.setdefault((subject, load), []).append(figures)

    def median(self, subject: str, figure: str, load: str = "") -> float | None:
        """Return the median over the rounds, or None if the figure was not measured."""
        rounds = self._rounds.get((subject, load), ())
        values = [figures[figure] for figures in rounds if figure in figures]
        return float(statistics.median(values)) if values else None

    def values(self, figure: str) -> list[float]:
        """Return a figure of every subject, load and round."""
        rounds = (figures for each in self._rounds.values() for figures in each)
        return [figures[figure] for figures in rounds if figure in figures]

    @property
    def n_rounds(self) -> int:
        return max(map(len, self._rounds.values()), default=0)

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"subject": subject, "load": load, "rounds": [dict(each) for each in rounds]}
            for (subject, load), rounds in self._rounds.items()
        ]


@dataclass(frozen=True)
class Threshold:
    """The ratio to a peer's figure that a figure must reach in the same run.

    Attributes:
        peer_load: of the peer's figure, if it is another one.
    """

    subject: str
    figure: str
    load: str
    comparison: str
    ratio: float
    peer: str
    peer_load: str | None = None

    def measured(self, results: Results) -> float | None:
        """Return the ratio of the medians, or None if one of them was not measured."""
        own = results.median(self.subject, self.figure, self.load)
        load = self.load if self.peer_load is None else self.peer_load
        peer = results.median(self.peer, self.figure, load)
        return own / peer if own is not None and peer else None

    def is_met_by(self, ratio: float) -> bool:
        return bool(COMPARISONS[self.comparison](ratio, self.ratio))
