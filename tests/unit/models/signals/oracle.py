"""What must hold of what a junction has shown, judged from the states of its lamps alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.signals.signal import Signal
from models.signals.states import YELLOW_S


@dataclass(frozen=True)
class Bounds:
    """What holds in seconds; ``max_walk_wait_s`` of the red of a pedestrian crossing.

    Attributes:
        cyclic: whether phases keep their cyclic order.
    """

    min_green_s: float
    max_red_s: float
    max_walk_wait_s: float | None = None
    cyclic: bool = False


def judge(times_s: Sequence[float], states: Sequence[str], signal: Signal, bounds: Bounds) -> None:
    """Check a history of one junction.

    Args:
        times_s: when each state began; a state lasts until the next begins.
        states: that differ from the one before.

    Raises:
        AssertionError: says what was wrong.
    """
    begins, ends = np.array(times_s[:-1]), np.array(times_s[1:])
    letters = np.array([list(state) for state in states[:-1]])
    for link in range(letters.shape[1]):
        stretches = _stretches(letters[:, link], begins, ends)
        least_s = max(bounds.min_green_s, signal.walk_s.get(link, 0))
        red_yellow_s = 0 if link in signal.walk_s else signal.red_yellow_s
        _check_link(link, stretches, least_s, signal.yellow_s.get(link, YELLOW_S), red_yellow_s)
    greens = [_spans(_is_green(letters[:, link]), begins, ends) for link in range(letters.shape[1])]
    protected = [_spans(column == "G", begins, ends)[0] for column in letters.T]
    for row, times in enumerate(signal.intergreen):
        for column, needed_s in enumerate(times):
            if needed_s is not None:
                _check_pair(row, column, greens[row], greens[column][0], needed_s)
                _check_pair(row, column, greens[row], protected[column], needed_s)
    for first, second in signal.conflicts or ():
        for walked, driven in ((first, second), (second, first)):
            if walked in signal.walk_s:
                _check_walk(walked, driven, letters, signal.phases)
    for link in signal.walk_s:
        most_s = bounds.max_walk_wait_s or bounds.max_red_s
        _check_wait(link, *greens[link], begins[0], ends[-1], most_s)
    _check_phases(np.array(states[:-1]), begins, ends, signal.phases, bounds)
    if bounds.cyclic:
        _check_order([signal.phases.index(each) for each in states if each in signal.phases])


def _check_order(shown: Sequence[int]) -> None:
    """Between two greens of the first phase, each other phase comes at most once, and in order."""
    cycles: list[list[int]] = [[]]
    for previous, phase in zip([-1, *shown], shown, strict=False):
        if phase == 0:
            cycles.append([])
        elif phase != previous:
            cycles[-1].append(phase)
    for cycle in cycles:
        assert cycle == sorted(set(cycle)), f"phases out of order: {cycle}"


def _stretches(
    letters: np.ndarray, begins: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the letters of a link as they follow each other, G and g as one, and seconds each."""
    plain = np.where(letters == "g", "G", letters)
    first = np.flatnonzero(np.r_[True, plain[1:] != plain[:-1]])
    last = np.r_[first[1:], len(plain)] - 1
    return plain[first], ends[last] - begins[first]


def _check_link(
    link: int,
    stretches: tuple[np.ndarray, np.ndarray],
    least_s: float,
    yellow_s: int,
    red_yellow_s: int,
) -> None:
    """Green, yellow, red, perhaps red and yellow; none too short. First and last are in part."""
    letters, seconds = stretches
    following = set(zip(letters[:-1].tolist(), letters[1:].tolist(), strict=True))
    begins = {("r", "u"), ("u", "G")} if red_yellow_s else {("r", "G")}
    assert following <= {("G", "y"), ("y", "r"), *begins}, f"link {link}: {following}"
    whole_letters, whole_seconds = letters[1:-1], seconds[1:-1]
    greens_s = whole_seconds[whole_letters == "G"]
    assert (greens_s >= least_s).all(), f"link {link}: {greens_s.min()} s of green of {least_s}"
    for letter, needed_s in (("y", yellow_s), ("u", red_yellow_s)):
        assert (whole_seconds[whole_letters == letter] == needed_s).all(), f"{link}: {letter}"


def _spans(
    shown: np.ndarray, begins: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return when what is shown in some of the states began and ended, each time."""
    starts = np.flatnonzero(shown & ~np.r_[False, shown[:-1]])
    stops = np.flatnonzero(shown & ~np.r_[shown[1:], False])
    return begins[starts], ends[stops]


def _is_green(letters: np.ndarray) -> np.ndarray:
    return np.asarray((letters == "G") | (letters == "g"))


def _check_pair(
    row: int,
    column: int,
    greens: tuple[np.ndarray, np.ndarray],
    began: np.ndarray,
    needed_s: float,
) -> None:
    """Every green of the column begins late enough after each earlier end of the row's.

    But one that begins while the row is green, where a phase lets one of them give way.
    """
    row_began, ended = greens
    before = np.searchsorted(ended, began, side="right") - 1
    is_beside = np.searchsorted(row_began, began, side="right") - 1 > before
    seen = (before >= 0) & ~is_beside
    if not seen.any():
        return
    gaps = began[seen] - ended[before[seen]]
    assert (gaps >= needed_s).all(), f"links {row} and {column}: {gaps.min()} s of {needed_s}"


def _check_walk(walked: int, driven: int, letters: np.ndarray, phases: Sequence[str]) -> None:
    """No vehicle has green or yellow across a walk, but one that a phase lets give way."""
    beside = {letters[row, driven] for row in np.flatnonzero(_is_green(letters[:, walked]))}
    turns = any(phase[walked] in "Gg" and phase[driven] == "g" for phase in phases)
    assert beside <= ({"r", "u", "g", "y"} if turns else {"r"}), (
        f"links {walked} and {driven}: {beside} beside a walk"
    )


def _check_wait(
    link: int,
    began: np.ndarray,
    ended: np.ndarray,
    first_s: float,
    last_s: float,
    most_s: float,
) -> None:
    """Each red of a crossing is within the bound, the first and the last included."""
    waits = np.r_[began, last_s] - np.r_[first_s, ended]
    assert (waits <= most_s).all(), f"crossing {link} waited for {waits.max()} s"


def _check_phases(
    states: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    phases: Sequence[str],
    bounds: Bounds,
) -> None:
    for phase in phases:
        shown = np.flatnonzero(states == phase)
        assert len(shown), f"{phase} was never shown"
        waits = np.r_[
            begins[shown[0]] - begins[0],
            begins[shown[1:]] - ends[shown[:-1]],
            ends[-1] - ends[shown[-1]],
        ]
        assert (waits <= bounds.max_red_s).all(), f"{phase} waited for {waits.max()} s"
        seconds = (ends - begins)[shown[:-1]]
        assert (seconds >= bounds.min_green_s).all(), f"{phase} was green for {seconds.min()} s"
