"""One junction's signal: which phase it shows, and when it may change."""

from __future__ import annotations

from collections.abc import Sequence

from models.signals.states import MIN_GREEN_S, YELLOW_S, yellow_state


class Signal:
    """A signal that obeys requested phases as far as yellow and minimum green allow.

    Args:
        phases: state string of each green phase, in SUMO's notation.
    """

    def __init__(self, phases: Sequence[str]) -> None:
        self._phases = tuple(phases)
        self._leaving = 0  # the phase that the yellow, if any, comes from
        self.phase = 0  # the green phase shown or, during yellow, about to be shown
        self._yellow_left_s = 0
        self._green_s = 0

    @property
    def may_change(self) -> bool:
        """Whether the current phase has been green for the minimum green time."""
        return self._yellow_left_s == 0 and self._green_s >= MIN_GREEN_S

    def request(self, phase: int) -> None:
        """Ask for a green phase; without effect during yellow and minimum green.

        Raises:
            ValueError: the junction has no such phase.
        """
        if not 0 <= phase < len(self._phases):
            raise ValueError(f"phase {phase} is not one of the {len(self._phases)} phases")
        if phase == self.phase or not self.may_change:
            return
        self._leaving, self.phase = self.phase, phase
        self._yellow_left_s, self._green_s = YELLOW_S, 0

    def advance(self) -> str:
        """Return the state string of the second that begins now, and let that second pass."""
        if self._yellow_left_s > 0:
            self._yellow_left_s -= 1
            return yellow_state(self._phases[self._leaving], self._phases[self.phase])
        self._green_s += 1
        return self._phases[self.phase]
