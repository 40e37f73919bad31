"""Histories made by hand, by which the judge itself is tested. Times are seconds."""

from __future__ import annotations

from collections import Counter
from typing import Any

from deployments.stateful.layout import Partition
from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.excuses import Breach, Excuses, Lost
from tests.unit.stateful.simulation.history import (
    ZEROS,
    Asked,
    Fault,
    Made,
    Outcome,
    ResetCall,
    Succession,
)
from tests.unit.stateful.simulation.judge import Judge
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.times import OPTIONS
from tests.unit.stateful.simulation.world import KEYS, World

KEY, MATE, STRANGER = KEYS[0], KEYS[1], KEYS[2]  # a junction, another one of its run, another run
HERE, THERE = "replica-0", "replica-1"
PARTITION, OTHER_PARTITION = Partition(), Partition(2, 0, 2)  # KEY does not belong to the other one
LATENCY_S = 0.001


class Forgery:
    """A world in which nothing runs: two partitions, and a history that says whatever a test wants.

    Args:
        options: those that differ from the options of the simulation.
    """

    def __init__(self, **options: Any) -> None:
        loop = SimulatedLoop()  # type: ignore[abstract]
        self.world = World(loop, OPTIONS.model_copy(update=options), seed=0)
        self.world.partitions.update({PARTITION: None, OTHER_PARTITION: None})
        self.history = self.world.history
        self.history.shards_of = dict.fromkeys((HERE, THERE), PARTITION.shards)

    def ask(
        self, at: float, key: Key = KEY, *, replica: str = HERE, request_id: str | None = None
    ) -> Asked:
        asked = Asked(len(self.history.asked) + 1, key, replica, at, request_id)
        self.history.asked.append(asked)
        return asked

    def make(self, asked: Asked, at: float, parent: Made | None, committed: bool = True) -> Made:
        """Step a state for a request, of which nobody hears."""
        number = len(self.history.states) + 1
        before, root, depth = ZEROS, number, 1
        if parent is not None:
            before, root, depth = parent.number, parent.root, parent.depth + 1
        made = Made(number, asked.number, before, root, depth, asked.replica, at)
        made.committed_at = at if committed else None
        self.history.states.append(made)
        return made

    def answer(self, asked: Asked, made: Made, at: float) -> None:
        asked.outcome, asked.ended = Outcome.ANSWERED, at
        asked.state, asked.step = made.number, made.depth

    def step(
        self,
        at: float,
        parent: Made | None = None,
        key: Key = KEY,
        *,
        replica: str = HERE,
        request_id: str | None = None,
        committed: bool = True,
    ) -> Made:
        """Ask for a step, make it, commit it at once and answer it."""
        asked = self.ask(at, key, replica=replica, request_id=request_id)
        made = self.make(asked, at, parent, committed)
        self.answer(asked, made, at + LATENCY_S)
        return made

    def end(self, asked: Asked, outcome: Outcome, at: float) -> None:
        asked.outcome, asked.ended = outcome, at

    def reset(self, run: str, sent: float, done: float | None) -> ResetCall:
        reset = ResetCall(run, sent, -1.0 if done is None else done, done)
        self.history.resets.append(reset)
        return reset

    def fault(self, kind: str, who: str, begin: float, end: float) -> None:
        self.history.faults.append(Fault(kind, who, begin, end))

    def succeed(
        self, at: float, *remembered: tuple[str, Made], partition: Partition = PARTITION
    ) -> None:
        """Begin a life of the authority, while replicas remember some states of ``KEY``."""
        known = [(replica, made.number) for replica, made in remembered]
        self.history.successions.append(
            Succession(partition.shard, partition.shards, at, {KEY: known})
        )

    def copy(self, made: Made, at: float) -> None:
        self.history.copies.setdefault(KEY, []).append((at, made.number))

    def judge(self) -> Counter[str]:
        judge = Judge(self.world)
        judge.judge()
        return judge.excused


class Loss(Forgery):
    """A step at 2.0 is answered; one at 3.0, elsewhere, does not continue from it."""

    def __init__(self, committed: bool = True, until: float = 3.0, **options: Any) -> None:
        super().__init__(**options)
        self.kept = self.step(1.0)
        self.copy(self.kept, 1.1)
        self.lost = self.step(2.0, self.kept, committed=committed)
        self.witness = self.step(until, self.kept, replica=THERE)

    def excuse(self) -> str | None:
        """Return the excuse, None for a breach because of this loss."""
        excuses = Excuses(self.world)
        try:
            excuses.excuse(Lost(KEY, self.lost, self.witness))
        except Breach as breach:
            if "is lost" not in str(breach):
                raise
            return None
        [name] = excuses.used
        return name
