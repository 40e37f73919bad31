"""A junction's signal in the simulation: which phase it shows, and when it may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from models.signals.monitor import ConflictMonitor
from models.signals.phase_order import in_order
from models.signals.safety import SafetyLayer, Shown, Step
from models.signals.states import red_state, yellow_state


class Signal(Protocol):
    """Shows one of some phases.

    Attributes:
        phase: the green phase shown or, during a change, about to be shown.
    """

    phase: int

    @property
    def green_s(self) -> float:
        """How long the phase has been green; negative during a change, in how long it will be."""

    @property
    def shown(self) -> Shown: ...

    @property
    def may_change(self) -> bool:
        """Whether the phase has been green for the minimum green time."""

    @property
    def has_choice(self) -> bool:
        """Whether requests for different phases now lead to different phases."""

    def request(self, phase: int) -> None:
        """Ask for a green phase.

        Raises:
            ValueError: the junction has no such phase.
        """

    def advance(self) -> str:
        """Return the state of the second that begins now, and let that second pass."""


class TimedSignal:
    """Obeys requests, with yellow and all-red between two phases, except in minimum green.

    Args:
        phases: state of each green phase, in SUMO's notation.
        cyclic: whether they keep their cyclic order.
    """

    def __init__(
        self,
        phases: Sequence[str],
        yellow_s: int,
        all_red_s: int,
        min_green_s: int,
        cyclic: bool = False,
    ) -> None:
        self._phases = tuple(phases)
        self._yellow_s, self._all_red_s = yellow_s, all_red_s
        self._min_green_s = min_green_s
        self._cyclic = cyclic
        self._leaving = 0
        self._left_s = 0  # of the change
        self._green_s = 0
        self._red_s = [0] * len(self._phases)
        self.phase = 0

    @property
    def green_s(self) -> float:
        return self._green_s - self._left_s

    @property
    def may_change(self) -> bool:
        return self._left_s == 0 and self._green_s >= self._min_green_s

    @property
    def has_choice(self) -> bool:
        return self.may_change

    @property
    def shown(self) -> Shown:
        return Shown(self.phase, self.green_s, tuple(self._red_s))

    def request(self, phase: int) -> None:
        if not 0 <= phase < len(self._phases):
            raise ValueError(f"phase {phase} is not one of the {len(self._phases)} phases")
        if self._cyclic:
            phase = in_order(self.phase, phase)
        if phase == self.phase or not self.may_change:
            return
        self._leaving, self.phase = self.phase, phase
        self._left_s, self._green_s = self._yellow_s + self._all_red_s, 0

    def advance(self) -> str:
        for phase in range(len(self._phases)):
            is_green = phase == self.phase and self._left_s == 0
            self._red_s[phase] = 0 if is_green else self._red_s[phase] + 1
        if self._left_s == 0:
            self._green_s += 1
            return self._phases[self.phase]
        self._left_s -= 1
        between = yellow_state if self._left_s >= self._all_red_s else red_state
        return between(self._phases[self._leaving], self._phases[self.phase])


class GuardedSignal:
    """Shows what the safety layer allows, checked by the conflict monitor."""

    def __init__(self, layer: SafetyLayer, monitor: ConflictMonitor) -> None:
        self._layer = layer
        self._monitor = monitor
        self.phase, _, red_s = layer.fresh
        self._red_s = list(red_s)
        self._green_s = 0
        self._change: tuple[Step, ...] = ()
        self._changing_s = 0

    @property
    def green_s(self) -> float:
        return self.shown.green_s

    @property
    def may_change(self) -> bool:
        return not self._change and self._green_s >= self._layer.min_green_s[self.phase]

    @property
    def has_choice(self) -> bool:
        phases = range(len(self._layer.phases))
        return len({self._layer.decide(self.shown, each).phase for each in phases}) > 1

    @property
    def shown(self) -> Shown:
        coming_s = self._change[-1].after_s - self._changing_s if self._change else 0
        return Shown(self.phase, self._green_s - coming_s, tuple(self._red_s))

    def request(self, phase: int) -> None:
        """Ask for a green phase; the layer may choose another one, at every request."""
        decision = self._layer.decide(self.shown, phase)
        if decision.steps:
            self.phase, self._change = decision.phase, decision.steps
            self._changing_s = self._green_s = 0

    def advance(self) -> str:
        """Return the state of the second that begins now, and let that second pass.

        Raises:
            ConflictError: the layer is wrong.
        """
        if self._change and self._changing_s >= self._change[-1].after_s:
            self._change = ()
        if self._change:
            state = [step.state for step in self._change if step.after_s <= self._changing_s][-1]
            self._changing_s += 1
        else:
            state = self._layer.phases[self.phase]
            self._green_s += 1
        self._monitor.check(state)
        for phase in range(len(self._red_s)):
            is_green = phase == self.phase and not self._change
            self._red_s[phase] = 0 if is_green else self._red_s[phase] + 1
        return state
