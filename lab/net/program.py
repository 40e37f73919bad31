"""A signal's program, as a SUMO network has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Program:
    """A signal's program: its kind (static, actuated, rail_signal, ...), and states with seconds.

    Attributes:
        phases: attributes as in the file; ``state`` and ``duration`` at least. Equal steps that
            follow each other are one.
        params: of its controller.
    """

    id: str
    kind: str
    offset: str
    phases: tuple[dict[str, str], ...]
    params: dict[str, str] = field(default_factory=dict)

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(phase.get("state", "") for phase in self.phases)


def joined(phases: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Join steps that follow each other and have the same state, and nothing but a duration."""
    joined: list[dict[str, str]] = []
    for phase in phases:
        before = joined[-1] if joined else {}
        if before.keys() == phase.keys() == {"state", "duration"} and (
            before["state"] == phase["state"]
        ):
            seconds = float(before["duration"]) + float(phase["duration"])
            before["duration"] = f"{seconds:g}"
        else:
            joined.append(phase)
    return joined
