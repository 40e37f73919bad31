"""How the replicas are: what Serve says of them, and who has fallen silent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from deployments.console.rates import SILENT_S, Rates

GONE_S = 15.0


class Replica(NamedTuple):
    """A replica, as Serve's controller knows it; ``state`` is one of Serve's, as RUNNING."""

    app: str
    deployment: str
    id: str
    state: str


class Replicas:
    """Remembers those that have gone, for a while."""

    def __init__(self) -> None:
        self._known: dict[Replica, float] = {}  # when it was last there
        self._updated: float | None = None

    def update(self, replicas: Iterable[Replica], now: float) -> None:
        """Take what Serve says, at ``now`` in seconds of a monotonic clock."""
        here = {replica.id: replica for replica in replicas}
        gone = {r: seen for r, seen in self._known.items() if r.id not in here}
        self._known = {r: seen for r, seen in gone.items() if now - seen < GONE_S}
        self._known |= dict.fromkeys(here.values(), now)
        self._updated = now

    def age_s(self, now: float) -> float:
        """Return for how long Serve has told nothing."""
        return math.inf if self._updated is None else now - self._updated

    def are_settled(self, rates: Rates, now: float) -> bool:
        """Return whether all that report are known, and all that are known run and report."""
        return rates.reporting(now) <= {replica.id for replica in self._known} and all(
            self._state(replica, rates, now) == "RUNNING" for replica in self._known
        )

    def described(self, rates: Rates, now: float) -> list[dict[str, Any]] | None:
        """Return each replica with its state; None while Serve has told nothing.

        Beside Serve's own states: ``SILENT`` is one that runs, but tells nothing any more, and
        ``GONE`` one that was there until lately.
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
