"""Telemetry of steps: counts for the metrics, and decisions for the console while it is open."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple, cast

from deployments.feed.messages import NO_DEMAND, Decision, Demand
from deployments.inference.policy_model import Decisions, PolicyModel
from deployments.metrics.sampled import Sampled
from deployments.stateful.batcher import BatcherCounts
from deployments.stateful.turn import SteppedBatch
from models.maps.road_map import MAX_DRAWN
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.policy.step import Floats, PolicyStep
from models.signals.diagnosis import FAULTS

MAX_RECENT = 4
MAX_RUNS = 50
_FULL = 20 * MAX_RUNS


class BatchSample(NamedTuple):
    """A batched step of B rows, from which the metrics are computed later.

    Attributes:
        seconds: duration of the step.
        agents: B agent indices.
        inputs: (B, width).
        hidden: (B, 128), after the step; not finite where the step was refused.
    """

    seconds: float
    policy: PolicyStep
    agents: Sequence[int]
    inputs: Floats
    hidden: Floats


@dataclass
class StepCounts(BatcherCounts):
    """Counts of one policy since the start of the replica.

    Attributes:
        predictions: answered steps, by (junction, action).
        failed_detectors: sums over the answered steps, by (junction, fault).
        batches: a sample, which shadows have as well.
    """

    predictions: Counter[tuple[str, int]] = field(default_factory=Counter)
    failed_detectors: Counter[tuple[str, str]] = field(default_factory=Counter)
    batches: Sampled[BatchSample] = field(default_factory=Sampled)

    def add(self, batch: SteppedBatch, labels: Sequence[str]) -> None:
        """Count a batch.

        Args:
            labels: of the junctions, by agent index.
        """
        decisions = cast("Decisions", batch.outputs)
        rows = zip(map(labels.__getitem__, decisions.agents), decisions.actions, strict=True)
        self.predictions.update(compress(rows, decisions.finite))
        for row, faults in decisions.faults.items():
            label = labels[decisions.agents[row]]
            self.failed_detectors.update((label, FAULTS[each - 1]) for each in faults if each)
        sample = BatchSample(
            batch.seconds,
            cast("PolicyModel", batch.model).policy,
            decisions.agents,
            decisions.inputs,
            decisions.step.hidden,
        )
        self.batches.observe(sample)


class _Watched(NamedTuple):
    """One row of a batch, as it was when its step was made."""

    at: float
    batch: SteppedBatch
    row: int
    namespace: str


class WatchedSteps:
    """Keeps the latest steps of each junction in the runs that a console shows.

    Attributes:
        watched: whether a console is open. While none is, no batch is to be added.
    """

    def __init__(self, network: Network) -> None:
        self.watched = False
        self._junctions = list(network.junctions.values())
        self._runs: frozenset[str] = frozenset()
        self._active: Counter[str] = Counter()
        self._recent = _nothing()

    def on_demand_changed(self, demand: Demand) -> None:
        self.watched, self._runs = demand
        if demand == NO_DEMAND:
            self._active.clear()
            self._recent = _nothing()

    def add(self, batch: SteppedBatch, namespace: str) -> None:
        """Keep what is shown of a batch, without copying its arrays.

        Args:
            namespace: of the hidden states.
        """
        active, wanted = self._active, self._runs
        agents = cast("Decisions", batch.outputs).agents
        for row, key in enumerate(batch.keys):
            run, agent = key.run, agents[row]
            active[run] += 1
            if run in wanted and agent < MAX_DRAWN:
                self._recent[run, agent].append(_Watched(time.time(), batch, row, namespace))
        if len(active) > _FULL:  # other runs appear again with their next step
            self._active = Counter(dict(active.most_common(MAX_RUNS)))

    def take(self, files: Mapping[str, str]) -> tuple[list[Decision], dict[str, int]]:
        """Return the latest decisions, and the steps of the busiest runs, since the last call.

        Args:
            files: of the policies, by the namespace of their hidden states.
        """
        recent, self._recent = self._recent, _nothing()
        active, self._active = self._active, Counter()
        decisions = [
            self._decision(run, each, files.get(each.namespace, ""), each is steps[-1])
            for (run, _), steps in recent.items()
            for each in steps
            if cast("Decisions", each.batch.outputs).finite[each.row]
        ]
        return decisions, dict(active.most_common(MAX_RUNS))

    def _decision(self, run: str, watched: _Watched, file: str, is_latest: bool) -> Decision:
        row, decisions = watched.row, cast("Decisions", watched.batch.outputs)
        junction = self._junctions[decisions.agents[row]]
        model = cast("PolicyModel", watched.batch.model)
        (probabilities,) = model.policy.probabilities(
            decisions.step.hidden[row : row + 1], model.unavailable[[junction.agent_index]]
        )
        return Decision(
            watched.at,
            run,
            junction.id,
            decisions.inputs[row, : junction.obs_size].tolist(),
            int(decisions.step.actions[row]),
            watched.batch.steps[row],
            probabilities.tolist(),
            watched.batch.before[row, :HIDDEN_DIM].copy() if is_latest else None,
            file,
            [FAULTS[each - 1] if each else "" for each in decisions.faults.get(row, ())],
        )


def _nothing() -> defaultdict[tuple[str, int], deque[_Watched]]:
    return defaultdict(lambda: deque(maxlen=MAX_RECENT))
