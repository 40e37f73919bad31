"""Faults: each is noted in the history with its name, and ends by itself or when all are healed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from tests.unit.stateful.simulation.actions import Action
from tests.unit.stateful.simulation.history import Fault
from tests.unit.stateful.simulation.loop import Process
from tests.unit.stateful.simulation.network import link
from tests.unit.stateful.simulation.ray import RAY, Actor
from tests.unit.stateful.simulation.replica import Replica
from tests.unit.stateful.simulation.store import NAME as STORE
from tests.unit.stateful.simulation.store import SLOWEST_S
from tests.unit.stateful.simulation.world import World

NEVER_NOTICED = 0.1
TENURE_S = 0.25  # for so long the earlier life may not know that it was succeeded


class Faults:
    """Carries out the faults of a schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[Fault, Callable[[], None]] = {}

    @property
    def last_end(self) -> float:
        """When the last fault ended, or will; two lives are at once until somebody asks both."""
        ends = [fault.end for fault in self._world.history.faults]
        return max((end for end in ends if end < inf), default=-1.0)

    def carry_out(self, action: Action) -> None:
        getattr(self, "_" + action.kind.replace(" ", "_"))(action)

    def heal(self) -> None:
        """End every fault now."""
        for fault in list(self._open):
            self._end(fault)
        for actor in self._world.actors.values():
            actor.end_what_was_lost()

    def _begin(
        self, kind: str, who: str, for_s: float, end: Callable[[], None] = lambda: None
    ) -> None:
        loop = self._world.loop
        fault = Fault(kind, who, loop.now, loop.now + for_s)
        self._world.history.faults.append(fault)
        self._open[fault] = end
        loop.post(loop.world, for_s, self._end, fault)

    def _end(self, fault: Fault) -> None:
        if (end := self._open.pop(fault, None)) is not None:
            fault.end = self._world.loop.now
            end()

    # Processes

    def _replica(self, action: Action) -> Replica | None:
        serving = [r for r in self._world.serving if not r.process.stalled]
        return serving[action.a % len(serving)] if serving else None

    def _actor(self, action: Action) -> Actor | None:
        actors = [actor for actor in self._world.present_actors if actor.current]
        return actors[action.a % len(actors)] if actors else None

    def kill(self, replica: Replica, noticed_after_s: float | None) -> None:
        world = self._world
        replica.process.die()
        self._begin("dead", replica.name, 0.0)
        world.history.faults[-1].end = world.loop.now
        if noticed_after_s is not None:
            world.loop.post(world.loop.world, noticed_after_s, world.known_dead.add, replica.name)

    def _kill_replica(self, action: Action) -> None:
        if (replica := self._replica(action)) is not None:
            noticed = None if action.amount == NEVER_NOTICED else min(action.amount, 0.05)
            self.kill(replica, noticed)
            self._world.add_replica()

    def _stall(self, process: Process, who: str, for_s: float) -> None:
        process.stall()
        self._begin("stalled", who, for_s, lambda: process.go_on(self._world.random))

    def _stall_replica(self, action: Action) -> None:
        if (replica := self._replica(action)) is not None:
            self._stall(replica.process, replica.name, action.amount)

    def _kill_authority(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._begin("dead", actor.node, 0.0)
            actor.kill(down_s=min(action.amount, 0.3))

    def _move_authority(self, action: Action) -> None:
        """Let it step down, and start the next life elsewhere."""
        actor, loop = self._actor(action), self._world.loop
        if actor is None or actor.current is None:
            return
        life = actor.current

        def answered(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is None:
                loop.post(loop.world, min(action.amount, 0.1), leave)

        def leave() -> None:
            self._world.met["a state actor moved"] += 1
            self._begin("dead", actor.node, 0.0)
            actor.lose(life)

        loop.post(life.runs, 0.0, life.call, "step_down", (), answered)

    def _stall_authority(self, action: Action) -> None:
        actor = self._actor(action)
        if actor is not None and actor.current and not actor.current.runs.stalled:
            self._stall(actor.current.runs, actor.node, action.amount)

    def _second_life(self, action: Action) -> None:
        """Ray starts a process too early; the earlier one may be stalled or cut off meanwhile."""
        actor = self._actor(action)
        if actor is None or actor.current is None:
            return
        before = actor.current
        trouble = action.b % 4
        if trouble == 1 and not before.runs.stalled:
            self._stall(before.runs, actor.node, action.amount)
        elif trouble == 2:
            self._cut(actor.node, RAY, action.amount, silent=True)
        self._world.met["two lives at once"] += 1
        self._begin("second life", actor.node, TENURE_S)
        actor.start_too_early()

    # Links

    def _cut(
        self,
        one: str,
        other: str,
        for_s: float,
        silent: bool,
        ways: tuple[bool, bool] = (True, True),
    ) -> None:
        network = self._world.network
        mends = []
        if ways[0]:
            mends.append(network.cut(one, other, silent))
        if ways[1]:
            mends.append(network.cut(other, one, silent))

        def mend() -> None:
            for each in mends:
                each()

        self._begin("cut", link(one, other), for_s, mend)

    def _cut_replica(self, action: Action) -> None:
        replica = self._replica(action)
        if replica is None:
            return
        ways = ((True, True), (True, True), (True, False), (False, True))[action.b % 4]
        for actor in self._world.present_actors:
            self._cut(replica.name, actor.node, action.amount, action.b % 3 > 0, ways)

    def _cut_authority_from_store(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            ways = ((True, True), (True, False), (False, True))[action.b % 3]
            self._cut(actor.node, STORE, action.amount, action.b % 2 > 0, ways)

    def _cut_authority_from_ray(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._cut(actor.node, RAY, action.amount, silent=True)

    def _isolate_authority(self, action: Action) -> None:
        """Cut an authority off from the store and Ray, but not from (all) replicas."""
        if (actor := self._actor(action)) is not None:
            self._cut(actor.node, STORE, action.amount, silent=action.b % 2 > 0)
            self._cut(actor.node, RAY, action.amount, silent=True)
            for replica in self._world.serving[: action.b % 3]:
                self._cut(replica.name, actor.node, action.amount, silent=True)

    # The store and the network

    def _for_a_while(self, kind: str, who: str, of: object, for_s: float, **values: object) -> None:
        before = {name: getattr(of, name) for name in values}
        for name, value in values.items():
            setattr(of, name, value)

        def end() -> None:
            for name, value in before.items():
                setattr(of, name, value)

        self._begin(kind, who, for_s, end)

    def _store_down(self, action: Action) -> None:
        if not self._world.store.down:
            self._for_a_while("down", STORE, self._world.store, action.amount, down=True)

    def _store_slow(self, action: Action) -> None:
        slow_s = (0.02, 0.1, SLOWEST_S)[action.b % 3]
        if not self._world.store.slow_s:
            self._for_a_while("slow", STORE, self._world.store, action.amount, slow_s=slow_s)

    def _store_fails(self, action: Action) -> None:
        store = self._world.store
        if not (store.before or store.after or store.late):
            chances = ((0.3, 0, 0), (0, 0.3, 0), (0, 0, 0.3), (0.1, 0.1, 0.1))[action.b % 4]
            names = dict(zip(("before", "after", "late"), chances, strict=True))
            self._for_a_while("fails", STORE, store, action.amount, **names)

    def _store_restarts(self, action: Action) -> None:
        self._world.store.epoch += 1
        self._store_down(action._replace(amount=min(action.amount, 0.1)))

    def _lose_messages(self, action: Action) -> None:
        if not self._world.network.lost:
            chance = (0.02, 0.1)[action.b % 2]
            network = self._world.network
            self._for_a_while("loses messages", "network", network, action.amount, lost=chance)

    def _repeat_messages(self, action: Action) -> None:
        if not self._world.network.repeated:
            network = self._world.network
            self._for_a_while("repeats", "network", network, action.amount, repeated=0.1)

    def _slow_network(self, action: Action) -> None:
        network = self._world.network
        if network.latency_s[1] < 0.05:
            latency_s = ((0.001, 0.05), (0.02, 0.1))[action.b % 2]
            self._world.slowest_message_s = max(self._world.slowest_message_s, latency_s[1])
            self._for_a_while("slow", "network", network, action.amount, latency_s=latency_s)
