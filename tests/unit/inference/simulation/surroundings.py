"""The world as each part of it sees it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Protocol

from deployments.inference.layout import Seat
from deployments.inference.options import InferenceOptions
from tests.unit.inference.simulation.history import History
from tests.unit.inference.simulation.loop import Process, SimulatedLoop
from tests.unit.inference.simulation.network import Network
from tests.unit.inference.simulation.store import Store


class Surroundings(Protocol):
    """What :class:`.world.World` offers to replicas, state actors and the wires between them."""

    loop: SimulatedLoop
    options: InferenceOptions
    random: random.Random
    history: History
    network: Network
    store: Store
    session: str
    n_lives: int
    generation: int
    known_dead: set[str]
    known_ended: set[str]
    met: Counter[str]

    def new_process(self, name: str) -> Process: ...

    def actor_of(self, seat: Seat) -> Any: ...

    def note_succession(self, seat: Seat) -> None: ...

    def has_closed(self, replica: Any) -> None: ...

    def carried_out(self, *call: Any) -> None: ...
