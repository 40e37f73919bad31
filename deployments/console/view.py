"""All that the console knows, and what of it a browser is shown."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from deployments.console.forecasts import Forecasts
from deployments.console.rates import Rates
from deployments.console.replicas import Replicas
from deployments.console.runs import Runs
from deployments.feed.messages import Report


@dataclass(frozen=True)
class Mark:
    """Up to where a browser has been told: numbers of decisions and of forecasts."""

    decisions: int = 0
    forecasts: int = 0


class View:
    """Takes reports, and makes the events that browsers get.

    Args:
        drawn: the junctions on the map.
    """

    def __init__(self, drawn: Collection[str]) -> None:
        self.rates = Rates()
        self.runs = Runs(drawn)
        self.forecasts = Forecasts(drawn)
        self.replicas = Replicas()

    def add(self, report: Report, now: float) -> None:
        """Take a report that has come at ``now``, in seconds of a monotonic clock."""
        self.rates.add(report, now)
        self.runs.add(report.contents, now)
        for forecast in report.contents.forecasts:
            self.forecasts.add(forecast)

    @property
    def mark(self) -> Mark:
        return Mark(self.runs.newest, self.forecasts.number)

    def event(self, wanted: str | None, told: Mark, at_ms: int, now: float) -> bytes:
        """Return a server-sent event with what is, and what came behind a mark.

        Args:
            wanted: the run to show; None for one that drives.
        """
        run = wanted or self.runs.followed(now)
        shown: dict[str, Any] = {
            "at_ms": at_ms,
            "run": run,
            "runs": self.runs.listed(now),
            "decisions": self.runs.decisions(run, told.decisions) if run else [],
            "rates": self.rates.summary(now),
            "replicas": self.replicas.described(self.rates, now),
        }
        if told.forecasts != self.forecasts.number:
            shown["forecasts"] = self.forecasts.described()
        return b"event: view\ndata: " + json.dumps(shown, separators=(",", ":")).encode() + b"\n\n"
