"""What a replica of a forecast tells the console, while one is open."""

from __future__ import annotations

from collections import deque

from deployments.feed.messages import NOBODY, Contents, Demand, Forecast
from deployments.forecast.counts import ForecastCounts

MAX_FORECASTS = 20


class WatchedForecasts:
    """Keeps the latest forecasts of what the console can draw.

    Attributes:
        watched: whether anybody watches; while nobody does, nothing is to be noted.
    """

    def __init__(self) -> None:
        self.watched = False
        self._forecasts: deque[Forecast] = deque(maxlen=MAX_FORECASTS)

    def on_demand_changed(self, demand: Demand) -> None:
        self.watched = demand.watched
        if demand == NOBODY:
            self._forecasts.clear()

    def note(self, forecast: Forecast) -> None:
        self._forecasts.append(forecast)

    def take(self) -> list[Forecast]:
        """Return what was noted since the last call."""
        forecasts = list(self._forecasts)
        self._forecasts.clear()
        return forecasts


class ForecastReporter:
    """Implements :class:`~deployments.feed.publisher.Reporter`."""

    def __init__(self, counts: ForecastCounts[object], watched: WatchedForecasts) -> None:
        self._counts = counts
        self._watched = watched

    def on_demand_changed(self, demand: Demand) -> None:
        self._watched.on_demand_changed(demand)

    def take(self) -> Contents:
        return Contents(self._counts.predictions.total(), forecasts=self._watched.take())
