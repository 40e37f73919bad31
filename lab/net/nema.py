"""NEMA controllers: two rings of phases, and barriers that both cross at once.

Source: https://sumo.dlr.de/docs/Simulation/NEMA.html.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import pairwise, product

from lab.net.program import Program
from lab.net.stages import LETTERS, is_green
from models.signals.states import YELLOW_S, red_state, yellow_state

_TIMES = "duration", "minDur", "maxDur"


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
    states = _states(program)
    alone = {state: name for name, state in states.items() if is_green(state)}
    reason = _missing(program)
    if not reason and conflicts is None:
        reason = "the net does not say which movements conflict"
    if reason:
        return alone, [f"each phase of its NEMA rings is an action, as {reason}"]
    pairs: dict[str, str] = {}
    left_out = []
    for sides in _sides(program):
        for one, two in product(*sides):
            if _clashes(states[one], states[two], conflicts or ()):
                left_out.append(f"the pair {one}+{two} has conflicting greens and is left out")
                continue
            pairs[_together(states[one], states[two])] = f"{one}+{two}"
            for phase in (one, two):
                alone.pop(states[phase], None)
    return pairs | alone, left_out


def in_steps(program: Program) -> Program:
    """Return a NEMA program as steps: pair after pair of its rings, with yellow and red between.

    Other programs stay as they are, and those without states.
    """
    lengths = {len(state) for state in program.states}
    if program.kind != "NEMA" or len(lengths) != 1 or lengths == {0}:
        return program
    phases = {phase.get("name", ""): phase for phase in program.phases}
    greens = list(program.phases)
    if not _missing(program):
        greens = [
            _joined(phases[one], phases[two])
            for one_side, other in _sides(program)
            for one, two in _in_turn(one_side or other, other or one_side)
        ]
    steps: list[dict[str, str]] = []
    for now, then in pairwise([*greens, *greens[:1]]):
        green = {key: now[key] for key in (*_TIMES, "state") if key in now}
        steps.append(green)
        states = now["state"], then["state"]
        if yellow_state(*states) != now["state"]:
            yellow_s, red_s = now.get("yellow", f"{YELLOW_S}"), now.get("red", "0")
            steps.append({"duration": yellow_s, "state": yellow_state(*states)})
            if float(red_s):
                steps.append({"duration": red_s, "state": red_state(*states)})
    return replace(program, phases=tuple(steps))


def _joined(one: dict[str, str], two: dict[str, str]) -> dict[str, str]:
    """Return a pair as one phase, with the longer times."""
    times = {
        key: max((phase[key] for phase in (one, two) if key in phase), key=float)
        for key in (*_TIMES, "yellow", "red")
        if key in one or key in two
    }
    return times | {"state": _together(one["state"], two["state"])}


def _in_turn(one: list[str], two: list[str]) -> list[tuple[str, str]]:
    """Return pairs in which each phase has a turn; the shorter side repeats its last one."""
    turns = range(max(len(one), len(two)))
    return [(one[min(turn, len(one) - 1)], two[min(turn, len(two) - 1)]) for turn in turns]


def _states(program: Program) -> dict[str, str]:
    return {phase.get("name", ""): phase.get("state", "") for phase in program.phases}


def _rings(program: Program) -> list[list[str]]:
    return [_numbers(program, "ring1"), _numbers(program, "ring2")]


def _barriers(program: Program) -> list[list[str]]:
    main = _numbers(program, "barrier2Phases") or _numbers(program, "coordinatePhases")
    return [main, _numbers(program, "barrierPhases")]


def _sides(program: Program) -> list[tuple[list[str], list[str]]]:
    """Return the phases of both rings on each side of the barriers."""
    barriers = _barriers(program)
    ends = {*barriers[0], *barriers[1]}
    first, second = _rings(program)
    return [(_side(first, each, ends), _side(second, each, ends)) for each in barriers]


def _numbers(program: Program, key: str) -> list[str]:
    numbers = (each.strip() for each in program.params.get(key, "").split(","))
    return [each for each in numbers if each not in ("", "0")]


def _missing(program: Program) -> str:
    """Return why the pairs of the rings are not known, empty if they are."""
    states, rings = _states(program), _rings(program)
    if not all(rings) or not all(_barriers(program)):
        return "the net does not have two rings and two barriers"
    if unknown := {*rings[0], *rings[1]} - states.keys():
        return f"the net has no phase {min(unknown)}"
    return "its states differ in length" if len(set(map(len, states.values()))) > 1 else ""


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
    return "".join(max(pair, key=LETTERS.find) for pair in zip(one, two, strict=True))
