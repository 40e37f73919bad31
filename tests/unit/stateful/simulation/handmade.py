"""Histories made by hand, to test the judge. Times are seconds."""

from __future__ import annotations

from collections import Counter
from typing import Any

from deployments.stateful.layout import Partition
from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.cluster import KEYS, SimulatedCluster
from tests.unit.stateful.simulation.excuses import Excuses, Lost, Violation
from tests.unit.stateful.simulation.history import (
    INITIAL,
    Fault,
    Outcome,
    Request,
    ResetCall,
    Step,
    Takeover,
)
from tests.unit.stateful.simulation.judge import Judge
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.times import OPTIONS

KEY, MATE, STRANGER = KEYS[0], KEYS[1], KEYS[2]  # MATE is of the same run
HERE, THERE = "replica-0", "replica-1"
PARTITION, OTHER_PARTITION = Partition(), Partition(2, 0, 2)  # KEY does not belong to the other one
LATENCY_S = 0.001


class HandmadeHistory:
    """A cluster in which nothing runs, with two partitions and the history that a test wants.

    Args:
        options: those that differ from the options of the simulation.
    """

    def __init__(self, **options: Any) -> None:
        loop = SimulatedLoop()  # type: ignore[abstract]
        self.cluster = SimulatedCluster(loop, OPTIONS.model_copy(update=options), seed=0)
        self.cluster.partitions.update({PARTITION: None, OTHER_PARTITION: None})
        self.history = self.cluster.history
        self.history.shards_of = dict.fromkeys((HERE, THERE), PARTITION.shards)

    def send(
        self, at: float, key: Key = KEY, *, replica: str = HERE, request_id: str | None = None
    ) -> Request:
        request = Request(len(self.history.requests) + 1, key, replica, at, request_id)
        self.history.requests.append(request)
        return request

    def make(
        self, request: Request, at: float, parent: Step | None, committed: bool = True
    ) -> Step:
        """Step a state for a request, without a response."""
        number = len(self.history.steps) + 1
        before, root, depth = INITIAL, number, 1
        if parent is not None:
            before, root, depth = parent.number, parent.root, parent.depth + 1
        step = Step(number, request.number, before, root, depth, request.replica, at)
        step.received_at = step.committed_at = at if committed else None
        self.history.steps.append(step)
        return step

    def respond(self, request: Request, step: Step, at: float) -> None:
        request.outcome, request.ended = Outcome.RESPONDED, at
        request.state, request.step = step.number, step.depth

    def step(
        self,
        at: float,
        parent: Step | None = None,
        key: Key = KEY,
        *,
        replica: str = HERE,
        request_id: str | None = None,
        committed: bool = True,
    ) -> Step:
        """Request a step, make it, commit it at once and answer it."""
        request = self.send(at, key, replica=replica, request_id=request_id)
        step = self.make(request, at, parent, committed)
        self.respond(request, step, at + LATENCY_S)
        return step

    def end(self, request: Request, outcome: Outcome, at: float) -> None:
        request.outcome, request.ended = outcome, at

    def reset(self, run: str, sent: float, done: float | None) -> ResetCall:
        reset = ResetCall(run, sent, -1.0 if done is None else done, done)
        self.history.resets.append(reset)
        if done is not None:
            self.history.cleared.setdefault(run, []).append(done)
        return reset

    def fault(self, kind: str, target: str, begin: float, end: float) -> None:
        self.history.faults.append(Fault(kind, target, begin, end))

    def take_over(
        self, at: float, *known: tuple[str, Step], partition: Partition = PARTITION
    ) -> None:
        """Begin a term, while replicas hold these states of ``KEY``."""
        numbers = [(replica, step.number) for replica, step in known]
        takeover = Takeover(partition.shard, partition.shards, at, {KEY: numbers})
        self.history.takeovers.append(takeover)

    def write_snapshot(self, step: Step, at: float) -> None:
        self.history.snapshots.setdefault(KEY, []).append((at, step.number))

    def judge(self) -> Counter[str]:
        judge = Judge(self.cluster)
        judge.judge()
        return judge.excused


class Loss(HandmadeHistory):
    """A step at 2.0 is answered; one at 3.0, elsewhere, does not continue from it.

    Args:
        anew: the later one continues from the initial state.
    """

    def __init__(
        self, committed: bool = True, until: float = 3.0, anew: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self.kept = self.step(1.0)
        self.write_snapshot(self.kept, 1.1)
        self.lost = self.step(2.0, self.kept, committed=committed)
        self.witness = self.step(until, None if anew else self.kept, replica=THERE)

    def excuse(self) -> str | None:
        """Return the excuse, None for a violation because of this loss."""
        excuses = Excuses(self.cluster)
        try:
            excuses.excuse(Lost(KEY, self.lost, self.witness))
        except Violation as violation:
            if "is lost" not in str(violation):
                raise
            return None
        [name] = excuses.used
        return name
