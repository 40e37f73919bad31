"""All that the console knows, and what of it a browser is shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
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


@dataclass
class View:
    """Takes reports, and makes the events that browsers get."""

    rates: Rates = field(default_factory=Rates)
    runs: Runs = field(default_factory=Runs)
    forecasts: Forecasts = field(default_factory=Forecasts)
    replicas: Replicas = field(default_factory=Replicas)

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
