"""What must hold of what a junction has shown, judged from the states of its lamps alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.signals.signal import Matrix
from models.signals.states import YELLOW_S


@dataclass(frozen=True)
class Bounds:
    min_green_s: float
    max_red_s: float


def judge(
    times_s: Sequence[float],
    states: Sequence[str],
    phases: Sequence[str],
    intergreen: Matrix,
    bounds: Bounds,
) -> None:
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
        _check_link(link, stretches, bounds)
    greens = [_greens(letters[:, link], begins, ends) for link in range(letters.shape[1])]
    for row, times in enumerate(intergreen):
        for column, needed_s in enumerate(times):
            if needed_s is not None:
                _check_pair(row, column, greens[row][1], greens[column][0], needed_s)
    _check_phases(np.array(states[:-1]), begins, ends, phases, bounds)


def _stretches(
    letters: np.ndarray, begins: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the letters of a link as they follow each other, G and g as one, and seconds each."""
    plain = np.where(letters == "g", "G", letters)
    first = np.flatnonzero(np.r_[True, plain[1:] != plain[:-1]])
    last = np.r_[first[1:], len(plain)] - 1
    return plain[first], ends[last] - begins[first]


def _check_link(link: int, stretches: tuple[np.ndarray, np.ndarray], bounds: Bounds) -> None:
    """Green, yellow, red in this order; none too short. The first and last were not seen whole."""
    letters, seconds = stretches
    following = set(zip(letters[:-1].tolist(), letters[1:].tolist(), strict=True))
    assert following <= {("G", "y"), ("y", "r"), ("r", "G")}, f"link {link}: {following}"
    whole_letters, whole_seconds = letters[1:-1], seconds[1:-1]
    assert (whole_seconds[whole_letters == "G"] >= bounds.min_green_s).all(), f"link {link}: green"
    assert (whole_seconds[whole_letters == "y"] == YELLOW_S).all(), f"link {link}: yellow"


def _greens(
    letters: np.ndarray, begins: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return when a link's greens began and ended."""
    green = (letters == "G") | (letters == "g")
    starts = np.flatnonzero(green & ~np.r_[False, green[:-1]])
    stops = np.flatnonzero(green & ~np.r_[green[1:], False])
    return begins[starts], ends[stops]


def _check_pair(
    row: int, column: int, ended: np.ndarray, began: np.ndarray, needed_s: float
) -> None:
    """Every green of the column begins late enough after each earlier end of the row's."""
    before = np.searchsorted(ended, began, side="right") - 1
    seen = before >= 0
    gaps = began[seen] - ended[before[seen]]
    assert (gaps >= needed_s).all(), f"links {row} and {column}: {gaps.min()} s of {needed_s}"


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
