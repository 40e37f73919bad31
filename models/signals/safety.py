"""The safety layer: what a junction may show next, whatever a policy asks for.

A pure function of what the junction shows, for how long, and how long its other phases have been
red. Only the controller that switches the lamps knows that, so every request includes it. Nothing
is kept here that a restart could lose or that replicas would have to agree about.

What holds for a junction that begins with the green of its first phase and obeys every decision:

- a green lasts ``min_green_s`` at least, and as long as the walk of each crossing that has it;
- between two greens that conflict lie yellow and the intergreen time of every pair of movements;
- a change is finished once it is begun, and shows vehicles red and yellow before their green for
  ``red_yellow_s``;
- no phase is red for longer than ``max_red_s``, and none with crossings for longer than
  ``max_walk_wait_s``, if the junction asks every ``asked_every_s``;
- with ``cyclic``, phases follow each other in the order of :func:`.in_order`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

from models.networks.network import Network
from models.signals.signal import NO_TIMES, Matrix, read_signals
from models.signals.states import MIN_GREEN_S, YELLOW_S, in_order, yellow_state

Rule = Literal["none", "change_under_way", "minimum_green", "maximum_red", "phase_order"]


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
        max_walk_wait_s: longest red of a phase with pedestrian crossings; None for ``max_red_s``.
        cyclic: whether the phases keep their cyclic order.
    """

    min_green_s: float = MIN_GREEN_S
    max_red_s: float = 120.0
    asked_every_s: float = 5.0
    max_walk_wait_s: float | None = None
    cyclic: bool = False


class SafetyLayer:
    """Guards one junction.

    Args:
        phases: state string of each green phase.
        intergreen: of each pair of links, see :func:`.intergreen.intergreen_matrix`.
        walk_s: least green of each link that is a pedestrian crossing.
        yellow_s: yellow of each link that has not YELLOW_S.
        red_yellow_s: of each link of vehicles, before its green.

    Attributes:
        min_green_s, max_red_s: of each phase.
        changes_s: least time from the end of each phase to the green of each other one.

    Raises:
        ValueError: a longest red is too short to serve every phase in turn.
    """

    def __init__(
        self,
        phases: Sequence[str],
        intergreen: Matrix,
        limits: Limits,
        walk_s: Mapping[int, float] = NO_TIMES,
        yellow_s: Mapping[int, int] = NO_TIMES,
        red_yellow_s: int = 0,
    ) -> None:
        self.phases = tuple(phases)
        self.limits = limits
        walks = [[walk_s[link] for link in walk_s if phase[link] in "Gg"] for phase in self.phases]
        self.min_green_s = tuple(max(limits.min_green_s, *each, 0) for each in walks)
        longest_wait_s = min(limits.max_red_s, limits.max_walk_wait_s or limits.max_red_s)
        self.max_red_s = tuple(longest_wait_s if each else limits.max_red_s for each in walks)
        self._walks, self._red_yellow_s = frozenset(walk_s), red_yellow_s
        self._yellow_s = [yellow_s.get(link, YELLOW_S) for link in range(len(self.phases[0]))]
        times = intergreen, self._yellow_s
        self.changes_s = [
            [_between_s(old, new, *times) for new in self.phases] for old in self.phases
        ]
        self._clear_s = [
            [_clear_s(earlier, new, *times) for new in self.phases] for earlier in self.phases
        ]
        self._longest_change_s = max(map(max, self._clear_s))
        # from the beginning of a change to the next one, at the latest
        self._turn_s = self.shortest_phase_s + limits.asked_every_s
        needed_s = (len(self.phases) - 1) * self._turn_s + self._longest_change_s
        for option, bound_s in (
            ("safety_max_red_s", limits.max_red_s),
            ("safety_max_pedestrian_wait_s", min(self.max_red_s)),
        ):
            if bound_s < needed_s:
                raise ValueError(
                    f"{option} must be at least {needed_s:g}"
                    f" to serve {len(self.phases)} phases in turn"
                )

    @property
    def shortest_phase_s(self) -> float:
        """Seconds that a change and the minimum green after it may take together."""
        return self._longest_change_s + max(self.min_green_s)

    def decide(self, shown: Shown, asked: int) -> Decision:
        """Return what may be shown next.

        Args:
            asked: the phase that the policy requests.

        Raises:
            ValueError: there is no such phase, or ``shown`` does not fit this junction.
        """
        self._check(shown, asked)
        phase, green_s, _ = shown
        rule: Rule
        if green_s < 0:
            rule = "none" if asked == phase else "change_under_way"
            return Decision(phase, -green_s, (), rule)
        if green_s < self.min_green_s[phase]:
            return Decision(phase, 0.0, (), "none" if asked == phase else "minimum_green")
        next_phase = in_order(phase, asked) if self.limits.cyclic else asked
        rule = "none" if next_phase == asked else "phase_order"
        if not self._leaves_time(shown, next_phase):
            next_phase = self._most_urgent(shown)
            rule = "none" if next_phase == asked else "maximum_red"
        return self._show(shown, next_phase, rule)

    def _check(self, shown: Shown, asked: int) -> None:
        n_phases = len(self.phases)
        for phase in (shown.phase, asked):
            if not 0 <= phase < n_phases:
                raise ValueError(f"phase {phase} is not one of the {n_phases} phases")
        if len(shown.red_s) != n_phases:
            raise ValueError(f"red must have {n_phases} values, one for each phase")

    def _over_s(self, shown: Shown) -> list[float]:
        """Return by how much each phase is red for longer than it may be; below zero in time."""
        return [red - most for red, most in zip(shown.red_s, self.max_red_s, strict=True)]

    def _leaves_time(self, shown: Shown, asked: int) -> bool:
        """Return whether all others can still be served in time after the one that is asked for.

        They are served in cyclic order or, where there is none, the most urgent first.
        """
        keeps = asked == shown.phase
        next_s = self.limits.asked_every_s if keeps else self._turn_s
        over_s = self._over_s(shown)
        over_s[shown.phase] = -self.max_red_s[shown.phase]  # the phase that ends
        waiting = [*over_s[asked + 1 :], *over_s[:asked]]
        if not self.limits.cyclic:
            waiting.sort(reverse=True)
        latest_s = -self._longest_change_s - next_s
        return all(over <= latest_s - at * self._turn_s for at, over in enumerate(waiting))

    def _most_urgent(self, shown: Shown) -> int:
        """Return the phase to change to when another one would wait too long."""
        n_phases, over_s = len(self.phases), self._over_s(shown)
        others = [each for each in range(n_phases) if each != shown.phase]
        if self.limits.cyclic:
            later = [each for each in others if in_order(shown.phase, each) == each]
            others = [each for each in later if self._leaves_time(shown, each)]
        return max(others, key=over_s.__getitem__, default=(shown.phase + 1) % n_phases)

    def _show(self, shown: Shown, new: int, rule: Rule) -> Decision:
        old = shown.phase
        if old == new:
            return Decision(new, 0.0, (), rule)
        earlier_s = [  # pedestrians of an earlier phase may still have to clear the junction
            ceil(self._clear_s[phase][new] - red_s)
            for phase, red_s in enumerate(shown.red_s)
            if phase not in (old, new)
        ]
        green_s = max(self.changes_s[old][new], *earlier_s, 0)
        steps = [*self._between(self.phases[old], self.phases[new], green_s)]
        return Decision(new, green_s, (*steps, Step(green_s, self.phases[new])), rule)

    def _between(self, old: str, new: str, green_s: int) -> Iterator[Step]:
        """Yield the states before the next green: each link's yellow, red, and red and yellow."""
        shown: list[tuple[str, str, int]] = []  # each link's letter, its next, and from when
        for link, letter in enumerate(yellow_state(old, new)):
            if letter == "y":
                shown.append(("y", "r", self._yellow_s[link]))
            elif (letter, new[link]) in _FROM_RED and link not in self._walks:
                shown.append(("r", "u", green_s - self._red_yellow_s))
            else:
                shown.append((letter, letter, 0))
        for after_s in sorted({0, *(from_s for *_, from_s in shown)}):
            if after_s < green_s:
                letters = (then if from_s <= after_s else now for now, then, from_s in shown)
                yield Step(after_s, "".join(letters))


def read_layers(limits: Limits, network: Network) -> dict[str, SafetyLayer]:
    """Return a layer for each junction.

    Raises:
        ValueError: ``max_red_s`` is too short for a junction, which is named, or the network's file
            does not say what a layer needs.
    """
    layers = {}
    for name, signal in read_signals(network).items():
        try:
            layers[name] = SafetyLayer(
                signal.phases,
                signal.intergreen,
                limits,
                signal.walk_s,
                signal.yellow_s,
                signal.red_yellow_s,
            )
        except ValueError as error:
            raise ValueError(f"junction {name}: {error}") from None
    return layers


_FROM_RED = {("r", "g"), ("r", "G")}
_BEGINS = {*_FROM_RED, ("g", "G")}


def _between_s(old: str, new: str, intergreen: Matrix, yellow_s: Sequence[int]) -> int:
    """Return seconds from the end of a phase to the green of another, at least the yellow.

    A movement that has to give way no longer (g, then G) begins, too.
    """
    ends = [i for i, (now, then) in enumerate(zip(old, new, strict=True)) if then == "r" != now]
    begins = [i for i, pair in enumerate(zip(old, new, strict=True)) if pair in _BEGINS]
    return _longest_s(ends, begins, intergreen, yellow_s)


def _clear_s(earlier: str, new: str, intergreen: Matrix, yellow_s: Sequence[int]) -> int:
    """Return seconds from the end of a phase to the green of another that follows some time later.

    What both let go may have been red in between, and so begins, too.
    """
    ends = [i for i, (was, then) in enumerate(zip(earlier, new, strict=True)) if then == "r" != was]
    begins = [j for j, then in enumerate(new) if then != "r"]
    return _longest_s(ends, begins, intergreen, yellow_s)


def _longest_s(
    ends: Sequence[int], begins: Sequence[int], intergreen: Matrix, yellow_s: Sequence[int]
) -> int:
    times = [intergreen[i][j] for i in ends for j in begins]
    yellows = [yellow_s[i] for i in ends]
    return max([YELLOW_S, *yellows, *(seconds for seconds in times if seconds is not None)])
