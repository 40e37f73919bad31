"""Schedules: what clients and faults do, and when, drawn from one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

from deployments.stateful.options import Durability, StateOptions
from tests.unit.stateful.simulation.history import FORMS, GRU, StateForm
from tests.unit.stateful.simulation.times import OPTIONS

MODES: tuple[Durability, ...] = get_args(Durability)

TRAFFIC = (
    "load",
    "load",
    "load",
    "burst",
    "repeat",
    "batch",
    "cancel",
    "predict",
    "reset",
    "fork",
)
FAULTS = (
    "kill replica",
    "stall replica",
    "suspend replica",
    "pause replica",
    "cut replica",
    "kill actor",
    "stall actor",
    "suspend actor",
    "pause actor",
    "second process",
    "cut actor from store",
    "cut actor from ray",
    "isolate actor",
    "store down",
    "store slow",
    "store fails",
    "store restarts",
    "store rolls back",
    "lose messages",
    "repeat messages",
    "slow network",
    "move actor",
)
OPERATIONS = (
    "close replica",
    "add replica",
    "change layout",
    "restart and close",
    "restart all",
    "restart with other options",
    "second cluster",
    "change policy",
    "idle",
)

KINDS = tuple(sorted({*TRAFFIC, *FAULTS, *OPERATIONS}))

NOT_BESIDE_ANOTHER_CLUSTER = {
    "store rolls back",
    "pause actor",
    "cut actor from store",
    "isolate actor",
    "store slow",
    "store fails",
    "change layout",
    "restart with other options",
}
"""A cluster that is cut off from the store alone cannot be told from one that has ended, nor can
another cluster know what a store has lost."""

SHORT, LONG = (0.0, 0.002, 0.02, 0.1), (0.15, 0.25, 0.35, 0.6, 1.1)


class Action(NamedTuple):
    """An event of a schedule, ``after`` seconds after the one before.

    What ``a``, ``b`` and ``amount`` mean depends on the kind; see :mod:`.play`.
    """

    after: float
    kind: str
    a: int
    b: int
    amount: float

    @property
    def is_fault(self) -> bool:
        return self.kind in FAULTS or self.kind.startswith("restart")


@dataclass(frozen=True)
class Schedule:
    """What happens to one cluster.

    Attributes:
        mode: the durability.
        spaced: a fault waits until the one before is over and survived.
        drift: largest deviation of the clocks' rates from 1.
        named: kinds of actions that were asked for when it was drawn.
    """

    seed: int
    mode: str
    actions: tuple[Action, ...]
    spaced: bool = False
    drift: float = 0.0
    latency_s: tuple[float, float] = (0.0002, 0.001)
    n_replicas: int = 2
    shards: int = 1
    restore: bool = False
    run_ttl_s: float = 3600.0
    form: StateForm = GRU
    named: tuple[str, ...] = ()

    @property
    def options(self) -> StateOptions:
        changes = {
            "durability": self.mode,
            "shards": self.shards,
            "restore_after_restart": self.restore,
            "run_ttl_s": self.run_ttl_s,
        }
        return OPTIONS.model_copy(update=changes)

    def __str__(self) -> str:
        settings = ", ".join(
            f"{name}={getattr(self, name)}"
            for name in self.__dataclass_fields__
            if name != "actions"
        )
        return "\n".join([settings, *(f"  {action}" for action in self.actions)])


def draw(seed: int, mode: str, named: Sequence[str] = ()) -> Schedule:
    """Draw a schedule of a few kinds of faults, often one kind after the other.

    Args:
        named: kinds of traffic, faults and operations that it has anyway.
    """
    rng = random.Random(f"{mode}/{seed}")
    spaced = rng.random() < 0.4
    kinds = [*named, *rng.sample(FAULTS, rng.randint(1, 4))]
    if rng.random() < 0.5:
        kinds += rng.sample(OPERATIONS, rng.randint(1, 2))
    if "second cluster" in kinds:
        kinds = [kind for kind in kinds if kind not in NOT_BESIDE_ANOTHER_CLUSTER]
        kinds.append("restart all")  # in favour of the other one
    actions = []
    for _ in range(rng.randint(8, 30)):
        kind = rng.choice(kinds) if rng.random() < 0.35 else rng.choice(TRAFFIC)
        amount = rng.choice(LONG if rng.random() < 0.4 else SHORT)
        after = rng.choice((0.0, 0.0, 0.001, 0.005, 0.03, 0.1, 0.25))
        actions.append(Action(after, kind, rng.randrange(60), rng.randrange(60), amount))
    return Schedule(
        seed,
        mode,
        tuple(actions),
        spaced,
        drift=rng.choice((0.0, 0.05)),
        latency_s=rng.choice(((0.0002, 0.001), (0.0002, 0.001), (0.001, 0.03))),
        n_replicas=rng.randint(1, 3),
        shards=1 if "second cluster" in kinds else rng.choice((1, 1, 2, 3)),
        restore=rng.random() < 0.5,
        run_ttl_s=0.6 if "idle" in kinds or rng.random() < 0.1 else 3600.0,
        form=rng.choice(FORMS),
        named=tuple(named),
    )
