"""The state that the console knows, and the events for browsers."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from deployments.console.replicas import Rates, Replicas
from deployments.console.runs import Runs
from deployments.feed.messages import FlowForecast, Report

MINUTE_S = 60
MAX_FORECASTS = 60
MAX_COUNTS = 120


class Forecasts:
    """Flow forecasts, beside the counts that later requests bring: of two hours, by junction.

    Args:
        drawn: junctions on the map.

    Attributes:
        number: of forecasts so far.
    """

    def __init__(self, drawn: Collection[str]) -> None:
        self._drawn = drawn
        self.number = 0
        self._made: dict[str, deque[FlowForecast]] = {}
        self._counts: dict[str, dict[int, float]] = {}

    def add(self, forecast: FlowForecast) -> None:
        """Add a forecast; one of an earlier time begins a new day, and removes the old one."""
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
        """Return for each junction the counts, and the forecasts with the actual mean."""
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


def _mean(counts: dict[int, float], forecast: FlowForecast) -> float | None:
    """Return the mean of the forecast minutes; None until all of them are known."""
    ended = forecast.newest + forecast.horizon_s
    minutes = range(forecast.newest + MINUTE_S, ended + 1, MINUTE_S)
    if not all(minute in counts for minute in minutes):
        return None
    return round(sum(counts[minute] for minute in minutes) / len(minutes), 1)


@dataclass(frozen=True)
class Mark:
    """What a browser has received: numbers of the last decision and forecast."""

    decisions: int = 0
    forecasts: int = 0


class View:
    """Collects reports, and makes the events for browsers.

    Args:
        drawn: junctions on the map.
    """

    def __init__(self, drawn: Collection[str]) -> None:
        self.rates = Rates()
        self.runs = Runs(drawn)
        self.forecasts = Forecasts(drawn)
        self.replicas = Replicas()

    def add(self, report: Report, now: float) -> None:
        """Add a report that arrived at ``now``, in seconds of a monotonic clock."""
        self.rates.add(report, now)
        self.runs.add(report.contents, now)
        for forecast in report.contents.forecasts:
            self.forecasts.add(forecast)

    @property
    def mark(self) -> Mark:
        return Mark(self.runs.newest, self.forecasts.number)

    def event(self, wanted: str | None, since: Mark, at_ms: int, now: float) -> bytes:
        """Return a server-sent event with the current state, and the news since a mark.

        Args:
            wanted: the run to show; None for an active one.
        """
        run = wanted or self.runs.followed(now)
        shown: dict[str, Any] = {
            "at_ms": at_ms,
            "run": run,
            "runs": self.runs.listed(now),
            "decisions": self.runs.decisions(run, since.decisions) if run else [],
            "rates": self.rates.summary(now),
            "replicas": self.replicas.described(self.rates, now),
        }
        if since.forecasts != self.forecasts.number:
            shown["forecasts"] = self.forecasts.described()
        return b"event: view\ndata: " + json.dumps(shown, separators=(",", ":")).encode() + b"\n\n"
