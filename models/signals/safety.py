"""The safety layer: what a junction may show next, whatever a policy asks for.

A pure function of what the junction shows, for how long, and how long its other phases have been
red. Only the controller that switches the lamps knows that, so every request includes it. Nothing
is kept here that a restart could lose or that replicas would have to agree about.

What holds for a junction that begins with :attr:`SafetyLayer.fresh` and obeys every decision:

- a green lasts ``min_green_s`` at least;
- between two greens that conflict lie yellow and the intergreen time of every pair of movements;
- a change is finished once it is begun;
- no phase is red for longer than ``max_red_s``, if the junction asks every ``asked_every_s``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from models.networks.network import Network
from models.signals.signal import Matrix, read_signals
from models.signals.states import MIN_GREEN_S, YELLOW_S, red_state, yellow_state

Rule = Literal["none", "change_under_way", "minimum_green", "maximum_red"]


class Shown(NamedTuple):
    """What a junction shows.

    Attributes:
        phase: that is green or, during a change, about to be.
        green_s: for how long it has been green; below zero, in how long it will be.
        red_s: by phase, for how long it has not been green; 0 for one that is.
    """

    phase: int
    green_s: float
    red_s: Sequence[float]


class Step(NamedTuple):
    """A state of the lamps, a letter for each link as in SUMO, and when it is to be shown.

    Attributes:
        after_s: seconds after the moment that was described.
    """

    after_s: float
    state: str


class Decision(NamedTuple):
    """What may be shown.

    Attributes:
        phase: to show next, be it the present one.
        after_s: seconds after the described moment from which it may be shown; 0 if it is.
        steps: the states that lead there; none without a new change.
        rule: that made it differ from ``asked``, or ``none``.
    """

    phase: int
    after_s: float
    steps: tuple[Step, ...]
    rule: Rule


@dataclass(frozen=True)
class Limits:
    """Bounds in seconds.

    Attributes:
        asked_every_s: longest time between two requests of a junction.
    """

    min_green_s: float = MIN_GREEN_S
    max_red_s: float = 120.0
    asked_every_s: float = 5.0


class SafetyLayer:
    """Guards one junction.

    Args:
        phases: state string of each green phase.
        intergreen: of each pair of links, see :func:`.intergreen.intergreen_matrix`.

    Raises:
        ValueError: ``max_red_s`` is too short to serve every phase in turn.
    """

    def __init__(self, phases: Sequence[str], intergreen: Matrix, limits: Limits) -> None:
        self.phases = tuple(phases)
        self.limits = limits
        everyone = range(len(self.phases))
        self._changes = {
            (old, new): _change(self.phases[old], self.phases[new], intergreen)
            for old in everyone
            for new in everyone
            if old != new
        }
        self._longest_change_s = max(steps[-1].after_s for steps in self._changes.values())
        # from the beginning of a change to the next one, at the latest
        self._turn_s = self._longest_change_s + limits.min_green_s + limits.asked_every_s
        needed_s = (len(self.phases) - 1) * self._turn_s + self._longest_change_s
        if limits.max_red_s < needed_s:
            raise ValueError(
                f"safety_max_red_s must be at least {needed_s:g}"
                f" to serve {len(self.phases)} phases in turn"
            )

    @property
    def shortest_phase_s(self) -> float:
        """Seconds that a change and the minimum green after it may take together."""
        return self._longest_change_s + self.limits.min_green_s

    @property
    def fresh(self) -> Shown:
        """What a junction is taken to show that has just been switched on."""
        return Shown(0, 0.0, (0.0,) * len(self.phases))

    def decide(self, shown: Shown, asked: int) -> Decision:
        """Return what may be shown next.

        Args:
            asked: the phase that the policy requests.

        Raises:
            ValueError: there is no such phase, or ``shown`` does not fit this junction.
        """
        self._check(shown, asked)
        phase, green_s, _ = shown
        if green_s < 0:
            rule: Rule = "none" if asked == phase else "change_under_way"
            return Decision(phase, -green_s, (), rule)
        if green_s < self.limits.min_green_s:
            return Decision(phase, 0.0, (), "none" if asked == phase else "minimum_green")
        if self._leaves_time(shown, asked):
            return self._show(phase, asked, "none")
        longest = max(range(len(self.phases)), key=lambda each: (each != phase, shown.red_s[each]))
        return self._show(phase, longest, "none" if longest == asked else "maximum_red")

    def _check(self, shown: Shown, asked: int) -> None:
        n_phases = len(self.phases)
        for phase in (shown.phase, asked):
            if not 0 <= phase < n_phases:
                raise ValueError(f"phase {phase} is not one of the {n_phases} phases")
        if len(shown.red_s) != n_phases:
            raise ValueError(f"red must have {n_phases} values, one for each phase")

    def _leaves_time(self, shown: Shown, asked: int) -> bool:
        """Return whether all others can still be served in time, the longest red first."""
        keeps = asked == shown.phase
        next_s = self.limits.asked_every_s if keeps else self._turn_s
        waiting = [
            red for phase, red in enumerate(shown.red_s) if phase not in (shown.phase, asked)
        ]
        if not keeps:
            waiting.append(0.0)  # the phase that ends
        waiting.sort(reverse=True)
        latest_s = self.limits.max_red_s - self._longest_change_s - next_s
        return all(red <= latest_s - at * self._turn_s for at, red in enumerate(waiting))

    def _show(self, old: int, new: int, rule: Rule) -> Decision:
        if old == new:
            return Decision(new, 0.0, (), rule)
        steps = self._changes[old, new]
        return Decision(new, steps[-1].after_s, steps, rule)


def read_layers(limits: Limits, network: Network) -> dict[str, SafetyLayer]:
    """Return a layer for each junction.

    Raises:
        ValueError: ``max_red_s`` is too short for a junction, which is named, or the network's file
            does not say what a layer needs.
    """
    layers = {}
    for name, signal in read_signals(network).items():
        try:
            layers[name] = SafetyLayer(signal.phases, signal.intergreen, limits)
        except ValueError as error:
            raise ValueError(f"junction {name}: {error}") from None
    return layers


def _change(old: str, new: str, intergreen: Matrix) -> tuple[Step, ...]:
    """Return yellow, all red where conflicting movements need it, and the new green."""
    ends = [i for i, (now, then) in enumerate(zip(old, new, strict=True)) if then == "r" != now]
    begins = [i for i, (now, then) in enumerate(zip(old, new, strict=True)) if now == "r" != then]
    times = [intergreen[i][j] for i in ends for j in begins]
    green_s = max([YELLOW_S, *(seconds for seconds in times if seconds is not None)])
    steps = [Step(0, yellow_state(old, new))]
    if green_s > YELLOW_S:
        steps.append(Step(YELLOW_S, red_state(old, new)))
    return (*steps, Step(green_s, new))
