"""Steps of the runs that somebody watches, noted beside the requests and told later."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deployments.feed.messages import NOBODY, Decision, Demand
from models.junctions import SHIPPED
from models.maps.map_of_file import MAX_DRAWN
from models.networks.network import Network
from models.policy.step import Floats, PolicyStep, Step

MAX_RECENT = 4
MAX_RUNS = 50
_FULL = 20 * MAX_RUNS


class Made(NamedTuple):
    """A batch of B steps that were made.

    Attributes:
        runs, agents, steps: B of each; a step counts those of its hidden state, this one included.
        inputs: (B, width).
        hidden: (B, 128) before the step.
        step: what came of it.
        states: name of the hidden states.
    """

    runs: Sequence[str]
    agents: list[int]
    steps: list[int]
    inputs: Floats
    hidden: Floats
    step: Step
    policy: PolicyStep
    states: str


class WatchedSteps:
    """Keeps the latest steps of each junction in the runs that are asked for, if a map shows it.

    Attributes:
        watched: whether anybody watches; while nobody does, nothing is to be noted.
    """

    def __init__(self, network: Network = SHIPPED) -> None:
        self.watched = False
        self._junctions = list(network.junctions.values())
        self._unavailable = network.unavailable
        self._runs: frozenset[str] = frozenset()
        self._active: Counter[str] = Counter()
        self._recent = _nothing()

    def on_demand_changed(self, demand: Demand) -> None:
        self.watched, self._runs = demand
        if demand == NOBODY:
            self._active.clear()
            self._recent = _nothing()

    def note(self, made: Made) -> None:
        """Note a batch; it keeps the arrays, which nobody may write into."""
        active, wanted = self._active, self._runs
        for row, run in enumerate(made.runs):
            active[run] += 1
            if run in wanted and made.agents[row] < MAX_DRAWN:
                self._recent[run, made.agents[row]].append((time.time(), made, row))
        if len(active) > _FULL:  # the others call again
            self._active = Counter(dict(active.most_common(MAX_RUNS)))

    def take(self, files: Mapping[str, str]) -> tuple[list[Decision], dict[str, int]]:
        """Return the latest decisions, and the steps of the busiest runs, since the last call.

        Args:
            files: that the policies were read from, by the name of their hidden states.
        """
        recent, self._recent = self._recent, _nothing()
        active, self._active = self._active, Counter()
        decisions = [
            self._decision(noted, run, files.get(noted[1].states, ""), noted is steps[-1])
            for (run, _), steps in recent.items()
            for noted in steps
            if noted[1].step.finite[noted[2]]
        ]
        return decisions, dict(active.most_common(MAX_RUNS))

    def _decision(self, noted: _Noted, run: str, policy: str, is_latest: bool) -> Decision:
        at, made, row = noted
        junction = self._junctions[made.agents[row]]
        after = made.step.hidden[row : row + 1]
        (probabilities,) = made.policy.probabilities(
            after, self._unavailable[[junction.agent_index]]
        )
        return Decision(
            at,
            run,
            junction.id,
            made.inputs[row, : junction.obs_size].tolist(),
            int(made.step.actions[row]),
            made.steps[row],
            probabilities.tolist(),
            made.hidden[row].copy() if is_latest else None,
            policy,
        )


_Noted = tuple[float, Made, int]
"""When it was made, the batch, and its row in there."""


def _nothing() -> defaultdict[tuple[str, int], deque[_Noted]]:
    return defaultdict(lambda: deque(maxlen=MAX_RECENT))
