"""The traffic of a city as it is counted: how many vehicles begin where and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from models.sumo.demand_tables import Entry, Exit, InvalidDemandError, Level, Turn

HOUR_S = 3600


@dataclass(frozen=True)
class Demand:
    """Counts, and what else is known.

    Attributes:
        turns: shares at some edges; elsewhere, as many as lanes lead there.
        exits: with weights; without, all of the net, by their lanes.
        levels: the profile of the day; without, the counts hold from begin to end.
        seed: of destinations, ways and departures.
    """

    entries: tuple[Entry, ...]
    turns: tuple[Turn, ...] = ()
    exits: tuple[Exit, ...] = ()
    levels: tuple[Level, ...] = ()
    begin_s: int = 0
    end_s: int = HOUR_S
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
            InvalidDemandError: one sentence.
        """
        if self.end_s <= self.begin_s:
            raise InvalidDemandError(f"The end, {self.end_s} s, is not after {self.begin_s} s.")
        if self.turns and self.exits:
            raise InvalidDemandError("Say either turning shares or destinations.")
        starts = [level.from_s for level in self.levels]
        if starts != sorted(set(starts)):
            raise InvalidDemandError("The profile's seconds must ascend.")
        if starts and starts[0] > self.begin_s:
            raise InvalidDemandError(f"The profile begins after {self.begin_s} s.")

    def stretches(self) -> Iterator[tuple[int, int, float]]:
        """Yield begin, end and factor of each stretch of the profile."""
        levels = self.levels or (Level(from_s=self.begin_s, factor=1),)
        ends = [*(level.from_s for level in levels[1:]), self.end_s]
        for level, end_s in zip(levels, ends, strict=True):
            begin_s, end_s = max(level.from_s, self.begin_s), min(end_s, self.end_s)
            if begin_s < end_s:
                yield begin_s, end_s, level.factor

    def vehicles(self, entry: Entry) -> Iterator[tuple[int, int, int]]:
        """Yield begin, end and whole vehicles of each stretch; what is rounded is not lost."""
        total, told = 0.0, 0
        for begin_s, end_s, factor in self.stretches():
            total += entry.vehicles_per_hour * factor * (end_s - begin_s) / HOUR_S
            yield begin_s, end_s, round(total) - told
            told = round(total)
