"""What the two parts of fault injection have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from load_tests.harness.system import FoundSystem


class Result(Protocol):
    """What a fault has cost."""

    def complaints(self) -> list[str]:
        """Return what is worse than it may be, as sentences."""

    def details(self) -> list[str]:
        """Return what helps to find the cause, as sentences."""

    def row(self) -> dict[str, str]:
        """Return the cells of the result's row, by column."""


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
