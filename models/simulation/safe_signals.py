"""A signal that shows what the safety layer allows, under the eyes of the conflict monitor."""

from __future__ import annotations

from functools import cache

from models.networks.shipped import SHIPPED
from models.signals.monitor import ConflictMonitor, make_monitors
from models.signals.safety import Limits, SafetyLayer, Shown, Step, read_layers


class SafeSignal:
    """Takes the place of :class:`.signals.Signal`; it asks the layer at each request.

    Attributes:
        phase: the green phase shown or, during a change, about to be shown.
    """

    def __init__(self, layer: SafetyLayer, monitor: ConflictMonitor) -> None:
        self._layer = layer
        self._monitor = monitor
        self.phase, _, red_s = layer.fresh
        self._red_s = list(red_s)
        self._green_s = 0
        self._change: tuple[Step, ...] = ()
        self._changing_s = 0

    @property
    def may_change(self) -> bool:
        """Whether the current phase has been green for the minimum green time."""
        return not self._change and self._green_s >= self._layer.limits.min_green_s

    @property
    def shown(self) -> Shown:
        coming_s = self._change[-1].after_s - self._changing_s if self._change else 0
        return Shown(self.phase, self._green_s - coming_s, self._red_s)

    def request(self, phase: int) -> None:
        """Ask for a green phase; another one is shown where the layer says so.

        Raises:
            ValueError: the junction has no such phase.
        """
        decision = self._layer.decide(self.shown, phase)
        if decision.steps:
            self.phase, self._change = decision.phase, decision.steps
            self._changing_s = self._green_s = 0

    def advance(self) -> str:
        """Return the state string of the second that begins now, and let that second pass.

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


def make_safe_signal(junction_id: str) -> SafeSignal:
    """Return the signal of a junction of the built network."""
    layers, monitors = _guards()
    return SafeSignal(layers[junction_id], monitors[junction_id])


@cache
def _guards() -> tuple[dict[str, SafetyLayer], dict[str, ConflictMonitor]]:
    return read_layers(Limits()), make_monitors(SHIPPED)
