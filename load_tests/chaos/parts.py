"""What the two parts of fault injection have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from load_tests.harness.system import FoundSystem


@dataclass(frozen=True)
class Result:
    """What a fault has cost.

    Attributes:
        away: by the name of what was without an answer, for how many seconds at most, and for how
            many it may be.
        broken: what else is worse than it may be, as sentences.
        details: what helps to find the cause, as sentences.
        row: cells by column.
    """

    away: Mapping[str, tuple[float, float]]
    broken: Sequence[str]
    details: Sequence[str]
    row: Mapping[str, str]

    def complaints(self, slack_s: float = 0.0) -> list[str]:
        """Return what is worse than it may be, as sentences.

        Args:
            slack_s: added to the time without an answer, for a busy machine.
        """
        late = [
            f"{name} was away for {seconds:.1f} s, not {allowed_s:g}"
            for name, (seconds, allowed_s) in self.away.items()
            if seconds > allowed_s + slack_s
        ]
        return [*late, *self.broken]


Try = Callable[[Any, str, float], Coroutine[Any, Any, Result]]
"""Injects a fault in a mode, under a load of so many seconds at least."""


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        about: the help text.
        faults: by name, each with what it is ``about``.
        start: starts the system on which faults are tried, and stops it.
        title: of the table of results.
        modes: in which each fault is injected.
    """

    about: str
    faults: Mapping[str, Any]
    start: Callable[[], AbstractContextManager[tuple[FoundSystem, Try]]]
    title: str
    modes: Sequence[str] = ("",)
