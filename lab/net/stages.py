"""Stages of a SUMO program: its green states, without those that only begin or end one."""

from __future__ import annotations

from collections.abc import Collection

from lab.net.program import Program

CHANGING = set("yYu")  # yellow, and the red-yellow before a green
SHORT_S = 5.0  # the least green of a stage whose movements are green in other stages, too
LETTERS = "rsgG"  # from red to protected green


def is_green(state: str) -> bool:
    """Return whether a state has green and is not part of a change."""
    return bool(set(state) & set("Gg")) and not set(state) & CHANGING


def stages_of(program: Program, walked: Collection[int] = ()) -> tuple[str, ...]:
    """Return the green states of the program that are stages, in its order.

    Args:
        walked: letters of pedestrian crossings.
    """
    merged = merged_states(program, walked)
    green = dict.fromkeys(state for state in program.states if is_green(state))
    return tuple(state for state in green if state not in merged)


def merged_states(program: Program, walked: Collection[int] = ()) -> dict[str, str]:
    """Return the green states that are part of a change and no stage, and why.

    A state is part of a change where another one that is shown for longer contains all its greens,
    or one that differs only in crossings; and where it is shown for less than SHORT_S and longer
    stages have all its greens. So each green link is as green in some stage.

    Args:
        walked: letters of pedestrian crossings.
    """
    seconds: dict[str, float] = {}
    for phase in program.phases:
        state = phase.get("state", "")
        if is_green(state):
            longest = max(float(phase.get(key, 0)) for key in ("duration", "maxDur"))
            seconds[state] = max(longest, seconds.get(state, 0.0))
    merged: dict[str, str] = {}
    for state in seconds:
        wholes = [other for other in seconds if _is_part(state, other)]
        if other := next((each for each in wholes if seconds[state] < seconds[each]), None):
            merged[state] = f"{other} has all its greens for longer"
        elif other := next((each for each in wholes if _changed(state, each) <= {*walked}), None):
            merged[state] = f"{other} differs only in crossings"
    whole = [state for state in seconds if state not in merged]
    long = [state for state in whole if seconds[state] >= SHORT_S]
    for state in whole:
        if state not in long and _is_covered(state, long):
            merged[state] = f"it takes less than {SHORT_S:g} s, and longer stages have its greens"
    return merged


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
    return letter == than or LETTERS.find(letter) > LETTERS.find(than) >= 0
