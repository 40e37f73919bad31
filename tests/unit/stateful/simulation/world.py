"""All processes of one schedule, and what clients do to them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from deployments.stateful.layout import Partition, shard_of
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Key, OutcomeUnknownError, StateError, Version
from deployments.stateful.replica.queues import StepResult
from tests.unit.stateful.simulation.history import (
    FORMS,
    Asked,
    Fault,
    History,
    Outcome,
    ResetCall,
    StateForm,
    Succession,
)
from tests.unit.stateful.simulation.loop import Process, SimulatedLoop
from tests.unit.stateful.simulation.network import Network, link
from tests.unit.stateful.simulation.ray import Actor
from tests.unit.stateful.simulation.replica import Replica
from tests.unit.stateful.simulation.store import Store
from tests.unit.stateful.simulation.wire import RESET

JUNCTIONS = ("300839359", "265580972", "265580996", "joinedS_265580996_300839357")
KEYS = [
    Key("a", "300839359"),
    Key("a", "265580972"),
    Key("b", "300839359"),
    Key("b", "265580972"),
    Key("c", "300839359"),
]


class World:
    """Times are true ones."""

    def __init__(
        self,
        loop: SimulatedLoop,
        options: StateOptions,
        seed: int,
        drift: float = 0.0,
        latency_s: tuple[float, float] = (0.0002, 0.001),
        form: StateForm = FORMS[0],
    ) -> None:
        self.form = form
        self.loop = loop
        self.options = options
        self.random = random.Random(seed)
        self.history = History()
        self.network = Network(loop, self.random, latency_s)
        self.network.on_loss = self._lost
        self.store = Store(loop, self.random)
        self.store.on_copy = self._copied
        self.store.number = form.number
        self.drift = drift
        self.session = "first"
        self.n_lives = 0
        self.generation = 0
        self.actors: dict[Partition, Actor] = {}
        self.partitions: dict[Partition, None] = {}  # of earlier starts of everything, too
        self.slowest_message_s = latency_s[1]
        self.replicas: list[Replica] = []
        self.known_dead: set[str] = set()
        self.known_ended: set[str] = set()
        self.met: Counter[str] = Counter()
        self._claimed: dict[tuple[str, int], dict[Key, int]] = {}
        self._told: dict[tuple[str, Key, Version], int] = {}

    def new_process(self, name: str) -> Process:
        rate = 1 + self.random.uniform(-self.drift, self.drift)
        return Process(self.loop, name, rate, self.random.uniform(0, 1000))

    # Parts

    def add_replica(self) -> Replica:
        replica = Replica(self, f"replica-{len(self.replicas)}")
        self.replicas.append(replica)
        return replica

    def actor_of(self, partition: Partition) -> Actor:
        self.partitions[partition] = None
        if partition not in self.actors:
            self.actors[partition] = Actor(self, partition)
            self.actors[partition].start()
        return self.actors[partition]

    @property
    def present_actors(self) -> list[Actor]:
        return [a for partition, a in self.actors.items() if not a.retired]

    @property
    def serving(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.serves]

    def partitions_of(self, key: Key) -> list[Partition]:
        """Return the partitions, of every layout so far, that a key belongs to."""
        return [partition for partition in self.partitions if partition.has(key)]

    # What clients do

    def ask(
        self,
        replica: Replica,
        key: Key,
        request_id: str | None = None,
        first: Sequence[Asked] = (),
        cancel_after_s: float | None = None,
    ) -> Asked:
        """Send one prediction; the history learns how it ends.

        Args:
            first: the attempts before at this very prediction.
        """
        loop, history = self.loop, self.history
        asked = Asked(len(history.asked) + 1, key, replica.name, loop.now, request_id)
        history.asked.append(asked)
        if replica.process.stalled:
            self.met["a replica was asked while it stalled"] += 1
        if self.network.cuts and replica.name in self._cut_off:
            self.met["a replica was asked while it was cut off"] += 1

        def ended(answer: asyncio.Future[StepResult]) -> None:
            asked.ended = loop.now
            if answer.cancelled():
                asked.outcome = Outcome.CANCELLED
            elif (error := answer.exception()) is None:
                (asked.state,), asked.step = answer.result()
                asked.outcome = Outcome.ANSWERED
            else:
                asked.error = repr(error)
                unknown = isinstance(error, OutcomeUnknownError)
                asked.outcome = Outcome.UNKNOWN if unknown else Outcome.REFUSED
                if not isinstance(error, StateError):
                    history.defects.append(f"{asked} failed with {error!r}")

        def arrive() -> None:
            if replica.closed:
                asked.outcome, asked.ended = Outcome.REFUSED, loop.now
                return
            request = first[0].number if first else asked.number
            answer = replica.batcher.submit(key, request, request_id=request_id)
            answer.add_done_callback(ended, context=loop.world.context.copy())
            if cancel_after_s is not None:
                loop.call_later(cancel_after_s, answer.cancel)

        loop.post(replica.process, self.network.delay(), arrive)
        return asked

    def reset(self, replica: Replica, run: str) -> ResetCall:
        call = ResetCall(run, self.loop.now)
        self.history.resets.append(call)

        async def work() -> None:
            RESET.set(call)
            try:
                await replica.engine.reset(run)
                call.done = self.loop.now
                call.executed = max(call.executed, call.done)
            except StateError:
                pass  # nobody has confirmed it

        def arrive() -> None:
            self.loop.create_task(work())

        self.loop.post(replica.process, self.network.delay(), arrive)
        return call

    # What the history learns

    def carried_out(
        self, process: str, method: str, args: Any, result: Any, reset: ResetCall | None
    ) -> None:
        """Learn what an authority has done.

        Args:
            process: of the authority.
            reset: the one that the call belongs to.
        """
        now = self.loop.now
        if method == "commit":
            _, states, *_ = args
            for key, state in zip(states.keys, states.states, strict=True):
                if key not in result:
                    self.history.commit(self.form.number(state), now)
        elif method == "claim":
            session, part = args
            claimed = self._claimed.setdefault((process, session), {})
            for batch in (part.owned, part.released):
                for key, version, state in zip(
                    batch.keys, batch.versions, batch.states, strict=True
                ):
                    if len(state):
                        self._told[process, key, version] = self.form.number(state)
                    copies = self.history.copies.get(key)
                    if (process, key, version) in self._told:
                        claimed[key] = self._told[process, key, version]
                    elif copies:  # which the authority has read, or it would ask for the state
                        claimed[key] = copies[-1][1]
            if not part.last:
                self.met["a claim in parts"] += 1
                return
            for key, number in claimed.items():
                if key not in result.lost:
                    self.history.commit(number, now)
        elif method == "checkout" and result.state is not None:
            self.history.commit(self.form.number(result.state), now)
        elif method == "reset" and reset is not None:
            reset.executed = max(reset.executed, now)

    def _copied(self, key: Key, number: int) -> None:
        self.history.copies.setdefault(key, []).append((self.loop.now, number))
        if self.options.commits_reach_store:  # whatever the commit was told that it was for
            self.history.commit(number, self.loop.now)

    def _lost(self, source: str, target: str) -> None:
        fault = Fault("message lost", link(source, target), self.loop.now, self.loop.now)
        self.history.faults.append(fault)

    def note_succession(self, partition: Partition) -> None:
        """Learn that a life of an authority begins with what is in the store now."""
        remembered = {
            key: [(r.name, number) for r in self.replicas for number in r.remembers(key)]
            for key in KEYS
            if shard_of(key, partition.shards) == partition.shard
        }
        now = self.loop.now
        self.history.successions.append(
            Succession(partition.shard, partition.shards, now, remembered)
        )

    def has_closed(self, replica: Replica) -> None:
        self.known_dead.add(replica.name)
        replica.process.die()
        if not replica.has_left:
            self.met["a replica closed without being heard"] += 1
            fault = Fault("closed", replica.name, self.loop.now, self.loop.now)
            self.history.faults.append(fault)

    @property
    def _cut_off(self) -> set[str]:
        return {name for pair, n in self.network.cuts.items() if n > 0 for name in pair}
