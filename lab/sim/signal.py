"""A junction's signal in the simulation: which phase it shows, and when it may change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from models.signals.monitor import ConflictMonitor
from models.signals.safety import SafetyLayer, Shown, Step
from models.signals.states import in_order, red_state, yellow_state


class Signal(ABC):
    """Shows one of some phases, and counts the seconds.

    Args:
        phases: state of each green phase, in SUMO's notation.
        min_green_s: of each.

    Attributes:
        phase: the green phase shown or, during a change, about to be shown.
    """

    def __init__(self, phases: Sequence[str], min_green_s: Sequence[float]) -> None:
        self._phases, self._min_green_s = tuple(phases), min_green_s
        self.phase = 0
        self._green_s = 0
        self._left_s: float = 0  # of the change
        self._red_s = [0] * len(self._phases)

    @property
    def green_s(self) -> float:
        """How long the phase has been green; negative during a change, in how long it will be."""
        return self._green_s - self._left_s

    @property
    def shown(self) -> Shown:
        return Shown(self.phase, self.green_s, tuple(self._red_s))

    @property
    def may_change(self) -> bool:
        """Whether the phase has been green for the minimum green time."""
        return self._left_s <= 0 and self._green_s >= self._min_green_s[self.phase]

    @property
    def has_choice(self) -> bool:
        """Whether requests for different phases now lead to different phases."""
        return self.may_change

    @abstractmethod
    def request(self, phase: int) -> None:
        """Ask for a green phase.

        Raises:
            ValueError: the junction has no such phase.
        """

    def advance(self) -> str:
        """Return the state of the second that begins now, and let that second pass."""
        is_changing = self._left_s > 0
        state = self._between() if is_changing else self._phases[self.phase]
        for phase in range(len(self._phases)):
            is_green = phase == self.phase and not is_changing
            self._red_s[phase] = 0 if is_green else self._red_s[phase] + 1
        if is_changing:
            self._left_s -= 1
        else:
            self._green_s += 1
        return state

    @abstractmethod
    def _between(self) -> str:
        """Return the state of a second of the change."""


class TimedSignal(Signal):
    """Obeys requests, with yellow and all-red between two phases, except in minimum green.

    Args:
        cyclic: whether phases keep their cyclic order.
    """

    def __init__(
        self,
        phases: Sequence[str],
        yellow_s: int,
        all_red_s: int,
        min_green_s: int,
        cyclic: bool = False,
    ) -> None:
        super().__init__(phases, [min_green_s] * len(phases))
        self._change_s, self._all_red_s = yellow_s + all_red_s, all_red_s
        self._cyclic = cyclic
        self._leaving = 0

    def request(self, phase: int) -> None:
        if not 0 <= phase < len(self._phases):
            raise ValueError(f"phase {phase} is not one of the {len(self._phases)} phases")
        if self._cyclic:
            phase = in_order(self.phase, phase)
        if phase == self.phase or not self.may_change:
            return
        self._leaving, self.phase = self.phase, phase
        self._left_s, self._green_s = self._change_s, 0

    def _between(self) -> str:
        between = yellow_state if self._left_s > self._all_red_s else red_state
        return between(self._phases[self._leaving], self._phases[self.phase])


class GuardedSignal(Signal):
    """Shows what the safety layer allows, checked by the conflict monitor."""

    def __init__(self, layer: SafetyLayer, monitor: ConflictMonitor) -> None:
        super().__init__(layer.phases, layer.min_green_s)
        self._layer, self._monitor = layer, monitor
        self._change: tuple[Step, ...] = ()

    @property
    def has_choice(self) -> bool:
        phases = range(len(self._phases))
        return len({self._layer.decide(self.shown, each).phase for each in phases}) > 1

    def request(self, phase: int) -> None:
        """Ask for a green phase; the layer may choose another one, at every request."""
        decision = self._layer.decide(self.shown, phase)
        if decision.steps:
            self.phase, self._change = decision.phase, decision.steps
            self._left_s, self._green_s = decision.after_s, 0

    def advance(self) -> str:
        """Return the state of the second that begins now, and let that second pass.

        Raises:
            ConflictError: the layer is wrong.
        """
        state = super().advance()
        self._monitor.check(state)
        return state

    def _between(self) -> str:
        changing_s = self._change[-1].after_s - self._left_s
        return [step.state for step in self._change if step.after_s <= changing_s][-1]
