"""The world as each part of it sees it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Protocol

from deployments.stateful.layout import Partition
from deployments.stateful.options import StateOptions
from tests.unit.stateful.simulation.history import History, StateForm
from tests.unit.stateful.simulation.loop import Process, SimulatedLoop
from tests.unit.stateful.simulation.network import Network
from tests.unit.stateful.simulation.store import Store


class Surroundings(Protocol):
    """What :class:`.world.World` offers to replicas, state actors and the wires between them."""

    loop: SimulatedLoop
    options: StateOptions
    random: random.Random
    history: History
    network: Network
    store: Store
    form: StateForm
    session: str
    n_lives: int
    generation: int
    known_dead: set[str]
    known_ended: set[str]
    met: Counter[str]

    def new_process(self, name: str) -> Process: ...

    def actor_of(self, partition: Partition) -> Any: ...

    def note_succession(self, partition: Partition) -> None: ...

    def has_closed(self, replica: Any) -> None: ...

    def carried_out(self, *call: Any) -> None: ...
