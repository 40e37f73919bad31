"""Faults: each is recorded in the history, and ends after its time or when all are healed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from deployments.stateful.rolled_back import ROLLED_BACK_ROW
from tests.unit.stateful.simulation.actors import Actor
from tests.unit.stateful.simulation.cluster import SimulatedCluster
from tests.unit.stateful.simulation.history import Fault
from tests.unit.stateful.simulation.loop import Process
from tests.unit.stateful.simulation.network import STORE, link
from tests.unit.stateful.simulation.replica import Replica

LEADER_LEASE_S = 0.25  # for so long an earlier process may not know that there is a later term


class Faults:
    """Injects faults into a cluster. A fault without a duration lasts until it is healed."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._active: dict[Fault, Callable[[], None]] = {}

    @property
    def last_end(self) -> float:
        """When the last fault ended, or will; of two processes, when both know of each other."""
        ends = [fault.end for fault in self._cluster.history.faults]
        return max((end for end in ends if end < inf), default=-1.0)

    def heal(self) -> None:
        """End every fault now."""
        for fault in list(self._active):
            self._end(fault)
        for actor in self._cluster.actors.values():
            actor.end_unseen()

    def _begin(
        self, kind: str, target: str, for_s: float = 0.0, end: Callable[[], None] | None = None
    ) -> None:
        loop = self._cluster.loop
        fault = Fault(kind, target, loop.now, loop.now + for_s)
        self._cluster.history.faults.append(fault)
        if end is not None:
            self._active[fault] = end
            if for_s < inf:
                loop.post(loop.environment, for_s, self._end, fault)

    def _end(self, fault: Fault) -> None:
        if (end := self._active.pop(fault, None)) is not None:
            fault.end = self._cluster.loop.now
            end()

    # Processes

    def kill_replica(self, replica: Replica, noticed_after_s: float | None = 0.01) -> None:
        """End a replica's process.

        Args:
            noticed_after_s: until Ray knows; None: never.
        """
        cluster = self._cluster
        replica.process.die()
        self._begin("dead", replica.name)
        if noticed_after_s is not None:
            cluster.loop.post(
                cluster.loop.environment, noticed_after_s, cluster.known_dead.add, replica.name
            )

    def stall_replica(self, replica: Replica, for_s: float = inf) -> None:
        self._stall(replica.process, replica.name, for_s)

    def suspend_replica(
        self, replica: Replica, for_s: float = inf, lease_clock_stops: bool = False
    ) -> None:
        """Suspend the machine of a replica, or pause it so that no clock goes on."""
        self._suspend(replica.process, replica.name, for_s, lease_clock_stops)

    def suspend_actor(
        self, actor: Actor, for_s: float = inf, lease_clock_stops: bool = False
    ) -> None:
        if actor.current is not None and not actor.current.runtime.stalled:
            self._suspend(actor.current.runtime, actor.node, for_s, lease_clock_stops)

    def _suspend(
        self, process: Process, target: str, for_s: float, lease_clock_stops: bool
    ) -> None:
        process.suspend(lease_clock_stops)
        kind = "paused" if lease_clock_stops else "suspended"
        self._begin(kind, target, for_s, lambda: process.resume(self._cluster.random))

    def _stall(self, process: Process, target: str, for_s: float) -> None:
        process.stall()
        self._begin("stalled", target, for_s, lambda: process.resume(self._cluster.random))

    def kill_actor(self, actor: Actor, down_s: float = 0.02, noticed: bool | None = None) -> None:
        self._begin("dead", actor.node)
        actor.kill(down_s, noticed)

    def stall_actor(self, actor: Actor, for_s: float = inf) -> None:
        if actor.current is not None and not actor.current.runtime.stalled:
            self._stall(actor.current.runtime, actor.node, for_s)

    def move_actor(self, actor: Actor, after_s: float = 0.0) -> None:
        """Let a state actor step down, and start its next process elsewhere."""
        process, loop = actor.current, self._cluster.loop
        if process is None:
            return

        def stepped_down(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is None:
                loop.post(loop.environment, after_s, leave)

        def leave() -> None:
            self._cluster.reached["a state actor moved"] += 1
            self._begin("dead", actor.node)
            actor.end(process)

        loop.post(process.runtime, 0.0, process.call, "step_down", (), stepped_down)

    def start_second_process(self, actor: Actor) -> None:
        """Let Ray start a process too early, out of whose sight the earlier one goes on."""
        self._cluster.reached["two processes at once"] += 1
        self._begin("second process", actor.node, LEADER_LEASE_S)
        actor.start_second()

    def restart_everything(self) -> None:
        """End every process; the next ones belong to another start of the cluster."""
        cluster = self._cluster
        if not cluster.history.leader:  # otherwise, the next cluster may be another one
            cluster.history.restarts.append(cluster.loop.now)
        for replica in cluster.replicas:
            if not replica.dead and replica.session == cluster.session:
                self.kill_replica(replica, 0.0)
        for actor in cluster.actors.values():
            self._begin("dead", actor.node)
            for process in list(actor.processes):
                actor.end(process, restart=False)
        cluster.actors = {}
        cluster.session += "'"

    def end_rival(self) -> None:
        """End every process of the other cluster."""
        if (rival := self._cluster.rival) is not None:
            self._cluster.rival = None
            Faults(rival).restart_everything()

    def end_in_favour_of_rival(self) -> None:
        """End every process of this cluster; the other one takes its place."""
        cluster = self._cluster
        self.restart_everything()
        rival, cluster.rival = cluster.rival, None
        assert rival is not None
        cluster.session, cluster.machine, cluster.actors = (
            rival.session,
            rival.machine,
            rival.actors,
        )

    # Links

    def cut(
        self,
        one: str,
        other: str,
        for_s: float = inf,
        silent: bool = True,
        ways: tuple[bool, bool] = (True, True),
    ) -> None:
        """Cut the link between two processes.

        Args:
            silent: senders get no error.
            ways: whether messages from the first to the second are cut, and those back.
        """
        network, directions = self._cluster.network, ((one, other), (other, one))
        mends = [
            network.cut(*direction, silent)
            for direction, is_cut in zip(directions, ways, strict=True)
            if is_cut
        ]

        def mend() -> None:
            for each in mends:
                each()

        self._begin("cut", link(one, other), for_s, mend)

    def cut_replica(
        self,
        replica: Replica,
        for_s: float = inf,
        silent: bool = True,
        ways: tuple[bool, bool] = (True, True),
    ) -> None:
        """Cut a replica off from every state actor."""
        for actor in self._cluster.present_actors:
            self.cut(replica.name, actor.node, for_s, silent, ways)

    # The store and the network

    def _change(self, kind: str, target: str, of: object, for_s: float, **values: object) -> None:
        before = {name: getattr(of, name) for name in values}

        def put(values: dict[str, object]) -> None:
            for name, value in values.items():
                setattr(of, name, value)

        put(values)
        self._begin(kind, target, for_s, lambda: put(before))

    def stop_store(self, for_s: float = inf) -> None:
        self._change("down", STORE, self._cluster.store, for_s, down=True)

    def restart_store(self, for_s: float) -> None:
        """Drop the calls under way, and serve again after a while."""
        self._cluster.store.starts += 1
        self.stop_store(for_s)

    def roll_back_store(self, lost_s: float) -> None:
        """Restore the store as it was, as a failover does that loses writes."""
        store, loop = self._cluster.store, self._cluster.loop
        if ROLLED_BACK_ROW not in store.rows and store.roll_back(loop.now - lost_s):
            self._cluster.reached["the store was rolled back"] += 1
            self._begin("rolled back", STORE)

    def slow_store(self, slow_s: float, for_s: float = inf) -> None:
        self._change("slow", STORE, self._cluster.store, for_s, slow_s=slow_s)

    def fail_changes(
        self, before: float = 0.0, after: float = 0.0, late: float = 0.0, for_s: float = inf
    ) -> None:
        """Let changes fail with these chances: before or after they are made, or made late."""
        store = self._cluster.store
        self._change("fails", STORE, store, for_s, before=before, after=after, late=late)

    def lose_messages(self, chance: float, for_s: float = inf) -> None:
        self._change("loses messages", "network", self._cluster.network, for_s, lost=chance)

    def repeat_messages(self, chance: float, for_s: float = inf) -> None:
        self._change("repeats", "network", self._cluster.network, for_s, repeated=chance)

    def slow_network(self, latency_s: tuple[float, float], for_s: float = inf) -> None:
        cluster = self._cluster
        cluster.slowest_message_s = max(cluster.slowest_message_s, latency_s[1])
        self._change("slow", "network", cluster.network, for_s, latency_s=latency_s)
