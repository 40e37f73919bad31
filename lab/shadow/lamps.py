"""What a junction shows, from its records: which phase, for how long, and how long each was red."""

from __future__ import annotations

from lab.net.stages import CHANGING
from lab.shadow.records import Record
from models.networks.form import JunctionEntry
from models.signals.safety import Shown

IN_CHANGE_S = -1.0  # an observer does not know how long a change will last


class Stages:
    """Finds the phase that a state of the lamps shows.

    Attributes:
        greens: by phase, its green links; empty where the network file has no states.
    """

    def __init__(self, junction: JunctionEntry) -> None:
        self.greens = [_green(phase.state or "") for phase in junction.phases]

    def shown(self, state: str) -> int | None:
        """Return the phase all of whose links are green, None during a change."""
        if CHANGING & set(state):
            return None
        green = _green(state)
        served = [phase for phase, links in enumerate(self.greens) if links and links <= green]
        return max(served, key=lambda phase: len(self.greens[phase]), default=None)


def _green(state: str) -> frozenset[int]:
    return frozenset(place for place, letter in enumerate(state) if letter in "Gg")


class Lamps:
    """Follows one junction through its records, from the first one on.

    States of the lamps give exact times. Without them, the phases of the decisions do, to the
    nearest decision.
    """

    def __init__(self, junction: JunctionEntry) -> None:
        self._stages = Stages(junction)
        self._n_phases = len(junction.phases)
        self._by_states = False
        self._green: int | None = None
        self._since_s = 0.0  # of the green
        self._red_since_s: list[float] = []

    def see(self, record: Record) -> None:
        """Take note of a record of the junction."""
        if not self._red_since_s:
            self._red_since_s = [record.time] * self._n_phases
        if record.state is not None:
            self._by_states = True
            self._show(self._stages.shown(record.state), record.time)
        elif record.observation is not None and not self._by_states:
            self._show(phase_of(record.observation, self._n_phases), record.time)

    def _show(self, phase: int | None, time_s: float) -> None:
        if phase == self._green:
            return
        if self._green is not None:
            self._red_since_s[self._green] = time_s
        self._green, self._since_s = phase, time_s

    def shown(self, record: Record) -> Shown:
        """Return what the junction shows at a decision, its record seen.

        The controller's own ``shown`` has precedence.
        """
        if record.shown is not None:
            return Shown(record.shown.phase, record.shown.green_s, record.shown.red_s)
        phase = phase_of(record.observation or (), self._n_phases)
        reds_s = [max(0.0, record.time - since_s) for since_s in self._red_since_s]
        if phase != self._green:
            return Shown(phase, IN_CHANGE_S, reds_s)
        reds_s[phase] = 0.0
        return Shown(phase, max(0.0, record.time - self._since_s), reds_s)


def phase_of(observation: tuple[float, ...], n_phases: int) -> int:
    """Return the phase that an observation begins with."""
    return observation[:n_phases].index(1)
