"""Stages of a SUMO program: its green states, without those that only begin or end one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product

from models.sumo.net import Program

CHANGING = set("yYu")  # yellow, and the red-yellow before a green
SHORT_S = 5.0  # the least green of a stage whose movements are green in other stages, too
_LETTERS = "rsgG"  # from red to protected green


def is_green(state: str) -> bool:
    """Return whether a state has green and is not part of a change."""
    return bool(set(state) & set("Gg")) and not set(state) & CHANGING


def stages_of(program: Program, walked: Collection[int] = ()) -> tuple[str, ...]:
    """Return the states of the program that are stages, in its order.

    A state is part of a change, and no stage, where another one that is shown for longer contains
    all its greens, or one that differs only in crossings; and where it is shown for less than
    SHORT_S and longer stages have all its greens. So each green link is as green in some stage.

    Args:
        walked: letters of pedestrian crossings.
    """
    seconds: dict[str, float] = {}
    for phase in program.phases:
        state = phase.get("state", "")
        if is_green(state):
            longest = max(float(phase.get(key, 0)) for key in ("duration", "maxDur"))
            seconds[state] = max(longest, seconds.get(state, 0.0))

    def is_change(state: str) -> bool:
        return any(
            _is_part(state, other)
            and (seconds[state] < seconds[other] or _changed(state, other).issubset(walked))
            for other in seconds
        )

    whole = [state for state in seconds if not is_change(state)]
    long = [state for state in whole if seconds[state] >= SHORT_S]
    return tuple(state for state in whole if state in long or not _is_covered(state, long))


def _is_part(state: str, other: str) -> bool:
    """Return whether another state is as green everywhere, and greener somewhere."""
    return state != other and len(state) == len(other) and all(map(_is_as_green, other, state))


def _changed(state: str, other: str) -> set[int]:
    return {place for place, pair in enumerate(zip(state, other, strict=True)) if len({*pair}) > 1}


def _is_covered(state: str, others: Collection[str]) -> bool:
    return bool(others) and all(
        any(_is_as_green(other[place], letter) for other in others if place < len(other))
        for place, letter in enumerate(state)
    )


def _is_as_green(letter: str, than: str) -> bool:
    return letter == than or _LETTERS.find(letter) > _LETTERS.find(than) >= 0


def nema_stages(
    program: Program, conflicts: Collection[tuple[int, int]] | None
) -> tuple[dict[str, str], list[str]]:
    """Return the pairs of phases that a NEMA controller's rings allow, and what is left out.

    A pair is a phase of each ring on the same side of the barrier. A phase without a partner is
    a stage alone.

    Args:
        conflicts: pairs of letters whose vehicles can meet; None if they are not known.

    Returns:
        Names, such as ``2+6``, by state; and sentences.
    """
    states = {phase.get("name", ""): phase.get("state", "") for phase in program.phases}
    alone = {state: name for name, state in states.items() if is_green(state)}
    rings = [_numbers(program, "ring1"), _numbers(program, "ring2")]
    barriers = [
        _numbers(program, "barrier2Phases") or _numbers(program, "coordinatePhases"),
        _numbers(program, "barrierPhases"),
    ]
    if reason := _missing(states, rings, barriers, conflicts):
        return alone, [f"each phase of its NEMA rings is an action, as {reason}"]
    ends = {*barriers[0], *barriers[1]}
    pairs: dict[str, str] = {}
    left_out = []
    for barrier in barriers:
        for one, two in product(*(_side(ring, barrier, ends) for ring in rings)):
            if _clashes(states[one], states[two], conflicts or ()):
                left_out.append(f"the pair {one}+{two} has conflicting greens and is left out")
                continue
            pairs[_together(states[one], states[two])] = f"{one}+{two}"
            for phase in (one, two):
                alone.pop(states[phase], None)
    return pairs | alone, left_out


def _numbers(program: Program, key: str) -> list[str]:
    numbers = (each.strip() for each in program.params.get(key, "").split(","))
    return [each for each in numbers if each not in ("", "0")]


def _missing(
    states: dict[str, str],
    rings: list[list[str]],
    barriers: list[list[str]],
    conflicts: Collection[tuple[int, int]] | None,
) -> str:
    """Return why there are no pairs, empty if there are."""
    if not all(rings) or not all(barriers):
        return "the net does not have two rings and two barriers"
    if unknown := {*rings[0], *rings[1]} - states.keys():
        return f"the net has no phase {min(unknown)}"
    if len({len(state) for state in states.values()}) > 1:
        return "its states differ in length"
    return "" if conflicts is not None else "the net does not say which movements conflict"


def _side(ring: list[str], barrier: Iterable[str], ends: Collection[str]) -> list[str]:
    """Return the phases of a ring from the barrier before to this one."""
    last = next((place for place, each in enumerate(ring) if each in barrier), None)
    if last is None:
        return []
    side = [ring[last]]
    for step in range(1, len(ring)):
        if ring[last - step] in ends:
            break
        side.insert(0, ring[last - step])
    return side


def _clashes(one: str, two: str, conflicts: Iterable[tuple[int, int]]) -> bool:
    """Return whether links of different phases conflict, and both are protected."""
    return any(
        (one[a] == two[b] == "G" or one[b] == two[a] == "G")
        and not (one[a] == one[b] == "G" or two[a] == two[b] == "G")
        for a, b in conflicts
    )


def _together(one: str, two: str) -> str:
    return "".join(max(pair, key=_LETTERS.find) for pair in zip(one, two, strict=True))
