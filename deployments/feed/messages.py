"""What passes between replicas, the feed and who watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Demand(NamedTuple):
    """What is asked for: nothing, or counts and the decisions of some runs."""

    watched: bool
    runs: frozenset[str] = frozenset()


NOBODY = Demand(False)


class Source(NamedTuple):
    """A replica, by the names that Serve gives it."""

    app: str
    deployment: str
    replica: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What was answered for a junction of a run that is watched.

    Attributes:
        at: seconds since the epoch.
        observation: as the policy saw it, without the padding.
        step: of the hidden state, from 1; 0 where the policy was not asked.
        probabilities: of the four actions; empty where the policy was not asked.
        hidden: (128,) before the step; None where a later step of the junction is told, too.
        policy: the file that it was read from.
        fallback: why the policy was not asked; empty where it was.
    """

    at: float
    run: str
    junction: str
    observation: list[float]
    action: int
    step: int = 0
    probabilities: list[float] = field(default_factory=list)
    hidden: NDArray[np.float32] | None = None
    policy: str = ""
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class FlowForecast:
    """A forecast of the flow at a junction, in vehicles per minute.

    Attributes:
        newest: seconds since the epoch of the last count; the forecast is of the time behind it.
        counts: vehicles in each of the minutes up to ``newest``, as far back as they were told.
        horizon_s: for which the mean flow is forecast.
        confidence: 0 to 1.
    """

    junction: str
    newest: int
    counts: list[float]
    flow: float
    horizon_s: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Contents:
    """What a replica has to tell.

    Attributes:
        requests: since its start.
        gauges: values of this moment, by name.
        fallbacks: since its start, by cause.
        latencies: since its start, a count for each bucket of RouteTimes.
        runs: steps since the last report, by run.
    """

    requests: int
    gauges: Mapping[str, float] = field(default_factory=dict)
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    latencies: list[int] = field(default_factory=list)
    runs: Mapping[str, int] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    forecasts: list[FlowForecast] = field(default_factory=list)

    @property
    def events(self) -> bool:
        """Whether anything was noted."""
        return bool(self.runs or self.decisions or self.forecasts)

    @property
    def totals(self) -> tuple[object, ...]:
        """What is told again and again, and is news when it has changed."""
        return self.requests, self.gauges, self.fallbacks


class Report(NamedTuple):
    """One message of a replica; ``at`` is in seconds since the epoch, by its own clock."""

    source: Source
    at: float
    contents: Contents
