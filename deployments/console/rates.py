"""What replicas' totals say about the last seconds."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import Any

from deployments.feed.messages import Contents, Report, Source
from deployments.request_times import BOUNDS_MS

WINDOW_S = 3.0
SILENT_S = 4.0  # replicas give a sign of life every two seconds
MAX_SOURCES = 500


class _Replica:
    """The reports of one replica within the window, by the replica's own clock."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, Contents]] = deque()
        self.heard = 0.0

    def add(self, report: Report, now: float) -> None:
        self.heard = now
        self._reports.append((report.at, report.contents))
        while report.at - self._reports[0][0] > WINDOW_S:
            self._reports.popleft()

    @property
    def latest(self) -> Contents:
        return self._reports[-1][1]

    @property
    def requests_per_s(self) -> float:
        (began, first), (ended, last) = self._reports[0], self._reports[-1]
        return (last.requests - first.requests) / (ended - began) if ended > began else 0.0

    @property
    def latencies(self) -> list[int]:
        (_, first), (_, last) = self._reports[0], self._reports[-1]
        before = first.latencies or [0] * len(last.latencies)
        return [new - old for new, old in zip(last.latencies, before, strict=True)]

    @property
    def fallbacks(self) -> Counter[str]:
        (_, first), (_, last) = self._reports[0], self._reports[-1]
        return Counter(last.fallbacks) - Counter(first.fallbacks)


class Rates:
    """Totals of all replicas, as rates and quantiles of the last seconds."""

    def __init__(self) -> None:
        self._replicas: dict[Source, _Replica] = {}

    def add(self, report: Report, now: float) -> None:
        """Take a report that has come at ``now``, in seconds of a monotonic clock."""
        for source in [s for s, r in self._replicas.items() if now - r.heard > 5 * SILENT_S]:
            del self._replicas[source]
        if report.source in self._replicas or len(self._replicas) < MAX_SOURCES:
            self._replicas.setdefault(report.source, _Replica()).add(report, now)

    def silence_s(self, replica: str, now: float) -> float | None:
        """Return for how long a replica has told nothing; None when it never did."""
        heard = [r.heard for source, r in self._replicas.items() if source.replica == replica]
        return now - heard[0] if heard else None

    def reporting(self, now: float) -> set[str]:
        """Return the replicas that have told something lately."""
        return {source.replica for source, _ in self._speaking(now)}

    def summary(self, now: float) -> dict[str, Any]:
        """Return what is drawn: requests and latencies by deployment, fallbacks by cause."""
        requests: defaultdict[str, float] = defaultdict(float)
        latencies: defaultdict[str, Counter[int]] = defaultdict(Counter)
        fallbacks: Counter[str] = Counter()
        for source, replica in self._speaking(now):
            requests[source.deployment] += replica.requests_per_s
            latencies[source.deployment].update(dict(enumerate(replica.latencies)))
            fallbacks += replica.fallbacks
        return {
            "requests_per_s": {name: round(rate, 1) for name, rate in requests.items()},
            "latency_ms": {
                name: {"p50": quantile_ms(counts, 0.5), "p99": quantile_ms(counts, 0.99)}
                for name, counts in latencies.items()
                if counts.total()
            },
            "fallbacks": fallbacks,
            "commit_lag_ms": self._worst("commit_lag_ms", now),
            "breaker": self._worst("breaker", now),
        }

    def _speaking(self, now: float) -> Iterator[tuple[Source, _Replica]]:
        return ((s, r) for s, r in self._replicas.items() if now - r.heard < SILENT_S)

    def _worst(self, gauge: str, now: float) -> float | None:
        values = [
            replica.latest.gauges[gauge]
            for _, replica in self._speaking(now)
            if gauge in replica.latest.gauges
        ]
        return round(max(values), 2) if values else None


def quantile_ms(counts: Mapping[int, int], share: float) -> float:
    """Return the latency that a share of requests did not exceed.

    Args:
        counts: by the place of a bucket of RouteTimes, within which they are taken to be even; one
            is above zero.
    """
    wanted, below, low = share * sum(counts.values()), 0, 0.0
    for bucket, high in enumerate(BOUNDS_MS):
        count = counts.get(bucket, 0)
        if count and below + count >= wanted:
            return round(low + (high - low) * (wanted - below) / count, 2)
        below += count
        low = high
    return low
