"""A signal's program, as SUMO runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

TIMES = "duration", "minDur", "maxDur", "yellow", "red"
KEPT = (*TIMES, "state", "name")  # of a phase; SUMO alone knows the rest
CONDITIONS = "earlyTarget", "finalTarget"


@dataclass(frozen=True)
class Program:
    """A signal's program: its kind (static, actuated, rail_signal, ...), and states with seconds.

    Attributes:
        phases: ``state`` and ``duration`` at least, times in seconds. They are in the order in
            which they are shown, without those that are not, and equal steps that follow each
            other are one.
        params: of its controller.
        remarks: what of it is left out here, for people.
    """

    id: str
    kind: str
    offset: str
    phases: tuple[dict[str, str], ...]
    params: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(phase.get("state", "") for phase in self.phases)


def read_phases(
    elements: Iterable[Mapping[str, str]], kind: str
) -> tuple[tuple[dict[str, str], ...], tuple[str, ...]]:
    """Return the phases of a :class:`Program` from their attributes in a file, and its remarks.

    Raises:
        ValueError: an attribute is not what SUMO reads.
    """
    read = list(elements)
    phases = [_read(each) for each in read]
    following = [each.get("next", "").split() for each in read] if kind != "NEMA" else []
    remarks = []
    if any(following):
        shown = _shown(_ways(following, kind))
        if left_out := len(phases) - len(shown):
            remarks.append(f"steps of its program that never recur are left out ({left_out})")
        if kind != "static" and any(len(each) > 1 for each in following):
            remarks.append("where its program may go on with several steps, it takes them in turn")
        phases = [phases[number] for number in shown]
    if any(name in each for each in read for name in CONDITIONS):
        remarks.append("only fixed time keeps the conditions of its program")
    return tuple(joined(phases)), tuple(remarks)


def _read(attributes: Mapping[str, str]) -> dict[str, str]:
    if "duration" not in attributes:
        raise ValueError("a phase has no duration")
    phase = {name: attributes[name] for name in attributes if name in KEPT}
    for name in phase.keys() & {*TIMES}:
        try:
            phase[name] = text_of(seconds_of(phase[name]))
        except ValueError as error:
            raise ValueError(f"{name} of a phase: {error}") from None
    return phase


def _ways(following: Sequence[Sequence[str]], kind: str) -> list[list[int]]:
    """Return by step the numbers of those that may be next."""
    ways = []
    for number, names in enumerate(following):
        named = [int(each) for each in names] or [(number + 1) % len(following)]
        if not all(0 <= each < len(following) for each in named):
            raise ValueError(f"next of a phase: {' '.join(names)!r} names no phase")
        ways.append(named[:1] if kind == "static" else named)
    return ways


def _shown(ways: Sequence[Sequence[int]]) -> list[int]:
    """Return the steps that recur after the first one, in their order."""
    return [each for each in _reached([0], ways) if each in _reached(ways[each], ways)]


def _reached(starts: Sequence[int], ways: Sequence[Sequence[int]]) -> list[int]:
    found: dict[int, None] = {}
    ahead = list(reversed(starts))
    while ahead:
        here = ahead.pop()
        if here not in found:
            found[here] = None
            ahead += reversed(ways[here])
    return list(found)


def joined(phases: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Join steps that follow each other and have the same state, and nothing but a duration."""
    joined: list[dict[str, str]] = []
    for phase in phases:
        before = joined[-1] if joined else {}
        if before.keys() == phase.keys() == {"state", "duration"} and (
            before["state"] == phase["state"]
        ):
            before["duration"] = text_of(float(before["duration"]) + float(phase["duration"]))
        else:
            joined.append(phase)
    return joined


def seconds_of(text: str) -> float:
    """Return the seconds of a time as SUMO reads it: ``3600.0``, ``1:00:00``, ``0:1:00:00``.

    Raises:
        ValueError: it is not a time.
    """
    *larger, seconds = text.strip().split(":")
    try:
        if len(larger) not in (0, 2, 3):
            raise ValueError
        days, hours, minutes = (0, 0, 0, *map(int, larger))[-3:]
        return float(round(((days * 24 + hours) * 60 + minutes) * 60 + float(seconds), 3))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; write seconds or H:MM:SS") from None


def text_of(seconds: float) -> str:
    """Return seconds as text, with milliseconds where they are not whole."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
