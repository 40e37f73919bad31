"""Messages between processes: late, out of order, lost, repeated, or cut off altogether."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from deployments.stateful.layout import Partition
from tests.unit.stateful.simulation.loop import Process, SimulatedLoop

STORE = "store"
RAY = "ray"


def node_of(partition: Partition) -> str:
    """Return the name of a state actor in the network; all its processes have the same."""
    return f"actor/{partition.generation}/{partition.shard}"


def link(one: str, other: str) -> str:
    return "|".join(sorted((one, other)))


@dataclass
class Network:
    """Times in seconds, chances from 0 to 1.

    Attributes:
        lost, repeated: chance of each message.
        cuts: directions that carry nothing, with the number of reasons.
        silent: those of them on which senders get no error.
        counts: of what happened to messages.
        on_loss: is called with the source and the target of a lost message.
    """

    loop: SimulatedLoop
    random: random.Random
    latency_s: tuple[float, float] = (0.0002, 0.001)
    lost: float = 0.0
    repeated: float = 0.0
    cuts: Counter[tuple[str, str]] = field(default_factory=Counter)
    silent: Counter[tuple[str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    on_loss: Callable[[str, str], None] = lambda source, target: None

    def delay(self) -> float:
        low, high = self.latency_s
        return low + (high - low) * self.random.random()

    def cut(self, source: str, target: str, silent: bool) -> Callable[[], None]:
        """Cut a direction; return what mends it."""
        which = (source, target)
        self.cuts[which] += 1
        self.silent[which] += silent

        def mend() -> None:
            self.cuts[which] -= 1
            self.silent[which] -= silent

        return mend

    def passes(self, source: str, target: str) -> bool:
        return not self.cuts or self.cuts[source, target] <= 0

    def send(
        self,
        source: str,
        target: str,
        process: Process,
        deliver: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        """Deliver a message to a process, once, twice or never.

        Args:
            failed: is called when the sender gets an error.
        """
        if not self.passes(source, target):
            if self.silent[source, target] <= 0:
                failed()
            return
        if self.lost and self.random.random() < self.lost:
            self.counts["lost"] += 1
            self.on_loss(source, target)
            if self.random.random() < 0.7:
                failed()
            return
        self.loop.post(process, self.delay(), deliver)
        if self.repeated and self.random.random() < self.repeated:
            self.counts["repeated"] += 1
            later = self.random.random() * self.random.choice((0.01, 0.3))
            self.loop.post(process, self.delay() + later, deliver)
