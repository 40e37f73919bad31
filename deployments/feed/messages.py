"""Messages between replicas, the feed and consoles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Demand(NamedTuple):
    """What consoles ask for: nothing, or counts and the decisions of some runs."""

    watched: bool
    runs: frozenset[str] = frozenset()


NO_DEMAND = Demand(False)


class Source(NamedTuple):
    """A replica, by the names that Serve gives it."""

    app: str
    deployment: str
    replica: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision for a junction of a watched run.

    Attributes:
        at: seconds since the epoch.
        observation: as the policy saw it, without padding.
        step: of the hidden state, from 1; 0 for a fallback.
        probabilities: of the actions; empty for a fallback.
        hidden: (128,) before the step; None if a later step of the junction is reported, too.
        policy: file of the policy.
        faults: of the lanes' detectors, in the order of the observation, ``""`` for one that works;
            empty if all work. What failed detectors read is replaced by estimates.
        fallback: cause of a fallback; empty for a decision of the policy.
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
    faults: list[str] = field(default_factory=list)
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class FlowForecast:
    """A forecast of the flow at a junction, in vehicles per minute.

    Attributes:
        newest: seconds since the epoch of the last count; the forecast is of the time after it.
        counts: vehicles in each of the known minutes up to ``newest``.
        horizon_s: of the forecast, a mean.
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
    """The contents of a report.

    Attributes:
        requests: since its start.
        breaker: state of the gateway's circuit breaker.
        fallbacks: since its start, by cause.
        latencies: since its start, a count for each bucket of RouteTimes.
        runs: steps since the last report, by run.
    """

    requests: int
    breaker: int | None = None
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    latencies: list[int] = field(default_factory=list)
    runs: Mapping[str, int] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    forecasts: list[FlowForecast] = field(default_factory=list)


class Report(NamedTuple):
    """One message of a replica; ``at`` is in seconds since the epoch, by its own clock."""

    source: Source
    at: float
    contents: Contents
