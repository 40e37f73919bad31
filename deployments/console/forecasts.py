"""Forecasts of flow beside what came: the counts that later requests tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

from deployments.feed.messages import Forecast

MINUTE_S = 60
MAX_FORECASTS = 60
MAX_COUNTS = 120


class Forecasts:
    """Keeps, for each junction, the latest forecasts and the counts of two hours.

    Args:
        drawn: the junctions on the map.

    Attributes:
        number: counts what has come.
    """

    def __init__(self, drawn: Collection[str]) -> None:
        self._drawn = drawn
        self.number = 0
        self._made: dict[str, deque[Forecast]] = {}
        self._counts: dict[str, dict[int, float]] = {}

    def add(self, forecast: Forecast) -> None:
        """Take a forecast; one of an earlier time begins another day, and the old one goes."""
        junction = forecast.junction
        if junction not in self._drawn:
            return
        self.number += 1
        made = self._made.setdefault(junction, deque(maxlen=MAX_FORECASTS))
        counts = self._counts.setdefault(junction, {})
        if made and forecast.newest < made[-1].newest:
            made.clear()
            counts.clear()
        if not made or forecast.newest > made[-1].newest:
            made.append(forecast)
        for age, value in enumerate(reversed(forecast.counts)):
            counts[forecast.newest - age * MINUTE_S] = value
        for old in sorted(counts)[:-MAX_COUNTS]:
            del counts[old]

    def described(self) -> dict[str, Any]:
        """Return for each junction the counts, and the forecasts with the mean that came."""
        return {junction: self._described(junction) for junction in self._made}

    def _described(self, junction: str) -> dict[str, Any]:
        counts = self._counts[junction]
        return {
            "counts": sorted(counts.items()),
            "forecasts": [
                {
                    "from": each.newest,
                    "to": each.newest + each.horizon_s,
                    "flow": round(each.flow, 1),
                    "confidence": round(each.confidence, 3),
                    "came": _mean(counts, each),
                }
                for each in self._made[junction]
            ],
        }


def _mean(counts: dict[int, float], forecast: Forecast) -> float | None:
    """Return the mean of the minutes that were forecast, None before the last of them is told."""
    ended = forecast.newest + forecast.horizon_s
    minutes = range(forecast.newest + MINUTE_S, ended + 1, MINUTE_S)
    if not all(minute in counts for minute in minutes):
        return None
    return round(sum(counts[minute] for minute in minutes) / len(minutes), 1)
