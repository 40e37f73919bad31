"""The replicas of the system: their rates, latencies and states."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from deployments.feed.messages import Contents, Report, Source
from deployments.request_times import BOUNDS_MS

WINDOW_S = 3.0
SILENT_S = 4.0  # replicas report at least every two seconds
MAX_SOURCES = 500


class _Replica:
    """The reports of one replica within the window, by the replica's clock."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, Contents]] = deque()
        self.seen = 0.0

    def add(self, report: Report, now: float) -> None:
        self.seen = now
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
        """Add a report that arrived at ``now``, in seconds of a monotonic clock."""
        for source in [s for s, r in self._replicas.items() if now - r.seen > 5 * SILENT_S]:
            del self._replicas[source]
        if report.source in self._replicas or len(self._replicas) < MAX_SOURCES:
            self._replicas.setdefault(report.source, _Replica()).add(report, now)

    def silence_s(self, replica: str, now: float) -> float | None:
        """Return the time since a replica's last report; None without one."""
        seen = [r.seen for source, r in self._replicas.items() if source.replica == replica]
        return now - seen[0] if seen else None

    def summary(self, now: float) -> dict[str, Any]:
        """Return requests and latencies by deployment, fallbacks by cause, and the breaker."""
        requests: defaultdict[str, float] = defaultdict(float)
        latencies: defaultdict[str, Counter[int]] = defaultdict(Counter)
        fallbacks: Counter[str] = Counter()
        breakers: list[int] = []
        for source, replica in self._replicas.items():
            if now - replica.seen >= SILENT_S:
                continue
            requests[source.deployment] += replica.requests_per_s
            latencies[source.deployment].update(dict(enumerate(replica.latencies)))
            fallbacks += replica.fallbacks
            if replica.latest.breaker is not None:
                breakers.append(replica.latest.breaker)
        return {
            "requests_per_s": {name: round(rate, 1) for name, rate in requests.items()},
            "latency_ms": {
                name: {"p50": quantile_ms(counts, 0.5), "p99": quantile_ms(counts, 0.99)}
                for name, counts in latencies.items()
                if counts.total()
            },
            "fallbacks": fallbacks,
            "breaker": max(breakers, default=None),
        }


def quantile_ms(counts: Mapping[int, int], share: float) -> float:
    """Return a quantile of latencies, with even distributions within buckets.

    Args:
        counts: by bucket of RouteTimes; at least one is above zero.
    """
    wanted, below, low = share * sum(counts.values()), 0, 0.0
    for bucket, high in enumerate(BOUNDS_MS):
        count = counts.get(bucket, 0)
        if count and below + count >= wanted:
            return round(low + (high - low) * (wanted - below) / count, 2)
        below += count
        low = high
    return low


GONE_S = 15.0


class Replica(NamedTuple):
    """A replica, as Serve's controller knows it; ``state`` is one of Serve's, as RUNNING."""

    app: str
    deployment: str
    id: str
    state: str


class Replicas:
    """The replicas that Serve has, and for a while those that have ended."""

    def __init__(self) -> None:
        self._known: dict[Replica, float] = {}  # when it was last there
        self._updated: float | None = None

    def update(self, replicas: Iterable[Replica], now: float) -> None:
        """Take Serve's list of replicas, at ``now`` in seconds of a monotonic clock."""
        here = {replica.id: replica for replica in replicas}
        gone = {r: seen for r, seen in self._known.items() if r.id not in here}
        self._known = {r: seen for r, seen in gone.items() if now - seen < GONE_S}
        self._known |= dict.fromkeys(here.values(), now)
        self._updated = now

    def described(self, rates: Rates, now: float) -> list[dict[str, Any]] | None:
        """Return each replica with its state; None without a list of Serve.

        Besides Serve's states, ``SILENT`` is a running replica that has stopped reporting, and
        ``GONE`` one that has recently ended.
        """
        if self._updated is None:
            return None
        return [
            replica._replace(state=self._state(replica, rates, now))._asdict()
            for replica in sorted(self._known)
        ]

    def _state(self, replica: Replica, rates: Rates, now: float) -> str:
        if self._known[replica] != self._updated:
            return "GONE"
        silence_s = rates.silence_s(replica.id, now)
        if replica.state == "RUNNING" and silence_s is not None and silence_s > SILENT_S:
            return "SILENT"
        return replica.state
