"""The statistics of a load test: how each outcome is counted, and how Locust writes them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from greenwave.client.core.call import NoReply, Reply

ALL = "all requests"
REFUSED = " refused"
"""Ends the name of a route in the statistics of the requests that it has refused."""
_FALLBACK = b'"fallback_mode '  # begins the status of a decision without the policy


@dataclass
class Row:
    """The requests of one route.

    Attributes:
        route: method and path, or ``ALL``.
        took: the number of requests by their milliseconds.
    """

    route: str
    requests: int = 0
    failures: int = 0
    took: Counter[float] = field(default_factory=Counter)

    @property
    def error_rate(self) -> float | None:
        """The share of requests that failed; None without a request."""
        return self.failures / self.requests if self.requests else None

    @property
    def p50_ms(self) -> float | None:
        return self._within(0.50)

    @property
    def p95_ms(self) -> float | None:
        return self._within(0.95)

    @property
    def p99_ms(self) -> float | None:
        return self._within(0.99)

    def add(self, other: Row) -> None:
        """Add the requests of another route."""
        self.requests += other.requests
        self.failures += other.failures
        self.took += other.took

    def _within(self, share: float) -> float | None:
        """Return the time within which this share of the requests ended; None without a request."""
        left = share * self.took.total()
        for milliseconds, times in sorted(self.took.items()):
            left -= times
            if left <= 0:
                return milliseconds
        return None


def read_rows(path: Path) -> list[Row]:
    """Read the statistics that Locust has written with ``--json-file``; the last row is ``ALL``."""
    rows = [_row(each) for each in json.loads(path.read_text())]
    whole = Row(ALL)
    for row in rows:
        whole.add(row)
    return [*sorted(rows, key=lambda row: row.route.split()[::-1]), whole]


def read_failures(path: Path) -> list[str]:
    """Read which failures occurred how often, from what Locust has written with ``--csv``."""
    with path.open(newline="") as file:
        failures = sorted(csv.DictReader(file), key=lambda each: -int(each["Occurrences"]))
    return [
        f"{each['Occurrences']} × {each['Method']} {each['Name']}: {each['Error']}"
        for each in failures
    ]


def _row(entry: Mapping[str, Any]) -> Row:
    took = Counter({float(time): number for time, number in entry["response_times"].items()})
    route = f"{entry['method']} {entry['name']}"
    return Row(route, entry["num_requests"], entry["num_failures"], took)


class Classified(NamedTuple):
    """How the statistics count an outcome.

    Attributes:
        suffix: of the route's name.
        failure: None for an answer as it must be.
    """

    suffix: str = ""
    failure: Exception | None = None


def classify(outcome: Reply | NoReply, may_be_refused: bool) -> Classified:
    """Distinguish answers, refusals and failures.

    Args:
        may_be_refused: whether a refusal for load is no failure, if it is a 503 with the code
            ``overloaded`` and a Retry-After.
    """
    if isinstance(outcome, NoReply):
        return Classified(failure=ConnectionError(outcome.reason))
    if outcome.status < 400:
        is_fallback = _FALLBACK in outcome.body
        return Classified(failure=RuntimeError("fallback of the gateway") if is_fallback else None)
    code = outcome.headers.get("x-error-code", "")
    is_overload = outcome.status == 503 and code == "overloaded"
    has_delay = outcome.headers.get("retry-after", "").isdecimal()
    if is_overload and has_delay and may_be_refused:
        return Classified(suffix=REFUSED)
    missing = " without Retry-After" if is_overload and not has_delay else ""
    return Classified(failure=RuntimeError(f"status {outcome.status} {code}".strip() + missing))


def read_log(lines: Iterable[str]) -> Iterator[tuple[float, Reply | NoReply]]:
    """Yield the milliseconds and the outcome of each request in the log of ``requests.lua``."""
    for line in lines:
        if line.startswith("RESPONSE "):
            _, status, microseconds, code, retry_after = line.rstrip("\n").split(" ")
            headers = {"x-error-code": code, "retry-after": retry_after}
            broken = NoReply(False, "The connection broke")
            outcome = Reply(int(status), headers, b"") if int(status) else broken
            yield int(microseconds) / 1000, outcome
