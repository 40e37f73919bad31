"""The active runs, and the latest decisions of those that are watched."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from deployments.feed.messages import Contents, Decision

MAX_RUNS = 50
MAX_RECENT = 12
ACTIVE_S = 5.0
_RATE_S = 2.0


@dataclass
class _Run:
    """One run; times in seconds of a monotonic clock."""

    began: float
    seen: float = 0.0
    steps: deque[tuple[float, int]] = field(default_factory=deque)
    decisions: defaultdict[str, deque[tuple[int, Decision]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=MAX_RECENT))
    )

    def add(self, steps: int, now: float) -> None:
        self.seen = now
        self.steps.append((now, steps))
        while now - self.steps[0][0] > _RATE_S:
            self.steps.popleft()

    def steps_per_s(self, now: float) -> float:
        return sum(steps for at, steps in self.steps if now - at <= _RATE_S) / _RATE_S


class Runs:
    """The MAX_RUNS most recently active runs.

    Args:
        drawn: junctions on the map.
    """

    def __init__(self, drawn: Collection[str]) -> None:
        self._drawn = drawn
        self._runs: dict[str, _Run] = {}
        self._numbers = count(1)
        self.newest = 0  # number of the latest decision
        self._followed: str | None = None

    def add(self, contents: Contents, now: float) -> None:
        for run, steps in contents.runs.items():
            self._runs.setdefault(run, _Run(now)).add(steps, now)
        for decision in sorted(contents.decisions, key=lambda each: each.at):
            self.newest = next(self._numbers)
            decided = self._runs.setdefault(decision.run, _Run(now, now))
            decided.decisions[decision.junction].append((self.newest, decision))
        for name in sorted(self._runs, key=lambda each: self._runs[each].seen)[:-MAX_RUNS]:
            del self._runs[name]

    def followed(self, now: float) -> str | None:
        """Return the run that is shown by default: the newest, for as long as it is active."""
        current = self._runs.get(self._followed or "")
        if current is None or now - current.seen > ACTIVE_S:
            active = [name for name, run in self._runs.items() if now - run.seen <= ACTIVE_S]
            newest = max(active, key=lambda name: self._runs[name].began, default=None)
            self._followed = newest or self._followed
        return self._followed

    def listed(self, now: float) -> list[dict[str, Any]]:
        """Return the runs, the most recently active first."""
        ordered = sorted(self._runs.items(), key=lambda each: -each[1].seen)
        return [
            {
                "run": name,
                "steps_per_s": round(run.steps_per_s(now), 1),
                "idle_s": round(now - run.seen, 1),
            }
            for name, run in ordered
        ]

    def decisions(self, name: str, after: int) -> list[dict[str, Any]]:
        """Return the decisions of a run after a number, the oldest first.

        Decisions for junctions that are not on the map, as of another network, are left out.
        """
        run = self._runs.get(name)
        if run is None:
            return []
        shown = [kept for junction, kept in run.decisions.items() if junction in self._drawn]
        numbered = [each for kept in shown for each in kept if each[0] > after]
        return [_described(decision) for _, decision in sorted(numbered, key=lambda each: each[0])]

    def latest(self, name: str, junction: str, step: int = 0) -> Decision | None:
        """Return the policy's decision for a junction at a step (0: its latest), with its state."""
        run = self._runs.get(name)
        kept: Iterable[tuple[int, Decision]] = run.decisions.get(junction, ()) if run else ()
        made = [each for _, each in kept if each.hidden is not None and step in (0, each.step)]
        return made[-1] if made else None


def _described(decision: Decision) -> dict[str, Any]:
    return {
        "at_ms": round(decision.at * 1000),
        "junction": decision.junction,
        "step": decision.step,
        "action": decision.action,
        "probabilities": [round(each, 4) for each in decision.probabilities],
        "observation": [round(each, 4) for each in decision.observation],
        "faults": decision.faults,
        "fallback": decision.fallback,
    }
