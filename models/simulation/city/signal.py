"""A signal that obeys requested phases, with times of its city's choice."""

from __future__ import annotations

from collections.abc import Sequence

from models.signals.states import red_state, yellow_state


class CitySignal:
    """Shows one of some phases, and between two of them yellow and all-red.

    Args:
        phases: state of each green phase, in SUMO's notation.

    Attributes:
        phase: shown or, during a change, about to be shown.
    """

    def __init__(
        self, phases: Sequence[str], yellow_s: int, all_red_s: int, min_green_s: int
    ) -> None:
        self._phases = tuple(phases)
        self._yellow_s, self._all_red_s = yellow_s, all_red_s
        self._min_green_s = min_green_s
        self._leaving = 0
        self._left_s = 0  # of the change
        self._green_s = 0
        self.phase = 0

    @property
    def may_change(self) -> bool:
        """Whether the phase has been green for the minimum green time."""
        return self._left_s == 0 and self._green_s >= self._min_green_s

    def request(self, phase: int) -> None:
        """Ask for a green phase; without effect during a change and minimum green.

        Raises:
            ValueError: the junction has no such phase.
        """
        if not 0 <= phase < len(self._phases):
            raise ValueError(f"phase {phase} is not one of the {len(self._phases)} phases")
        if phase == self.phase or not self.may_change:
            return
        self._leaving, self.phase = self.phase, phase
        self._left_s, self._green_s = self._yellow_s + self._all_red_s, 0

    def advance(self) -> str:
        """Return the state of the second that begins now, and let that second pass."""
        if self._left_s == 0:
            self._green_s += 1
            return self._phases[self.phase]
        self._left_s -= 1
        between = yellow_state if self._left_s >= self._all_red_s else red_state
        return between(self._phases[self._leaving], self._phases[self.phase])
