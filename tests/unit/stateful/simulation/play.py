"""Plays a schedule, and lets the service recover from it."""

from __future__ import annotations

import asyncio

from deployments.stateful.protocol import Key
from deployments.stateful.rolled_back import accept_rolled_back
from tests.unit.stateful.simulation.actors import TABLE, Actor
from tests.unit.stateful.simulation.cluster import KEYS, SimulatedCluster
from tests.unit.stateful.simulation.faults import Faults
from tests.unit.stateful.simulation.history import Request
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.network import RAY, STORE
from tests.unit.stateful.simulation.replica import Replica
from tests.unit.stateful.simulation.schedule import MODES, Action, Schedule
from tests.unit.stateful.simulation.store import SLOWEST_S, StoreClient
from tests.unit.stateful.simulation.times import MOST_KEYS, OPTIONS

RECOVERY_S = 0.9  # the time in which the service survives a single fault
SETTLING_S = 2.4
CHECK_PERIOD_S = 0.3
LONGEST_START_S = 3.0
NEVER_NOTICED = 0.1
OTHER_TTL_S = 0.9
BOTH, THERE, BACK = (True, True), (True, False), (False, True)


class Play:
    """One schedule in a cluster of its own.

    Attributes:
        last: requests after the recovery, of every replica for every key.
    """

    def __init__(self, schedule: Schedule, loop: SimulatedLoop) -> None:
        self.schedule = schedule
        self.cluster = SimulatedCluster(
            loop,
            schedule.options,
            schedule.seed,
            schedule.drift,
            schedule.latency_s,
            schedule.form,
        )
        self.last: list[Request] = []
        self._faults = Faults(self.cluster)
        self._operators_store = StoreClient(self.cluster.store, self.cluster.network, "operator")
        self._repeated = 0

    async def run(self) -> SimulatedCluster:
        cluster = self.cluster
        for _ in range(self.schedule.n_replicas):
            cluster.add_replica()
        async with asyncio.timeout(LONGEST_START_S):
            while not cluster.serving:
                await asyncio.sleep(0.01)
        for action in self.schedule.actions:
            await asyncio.sleep(action.after)
            if action.is_fault and self.schedule.spaced:
                wait_s = self._faults.last_end + RECOVERY_S - cluster.loop.now
                await asyncio.sleep(max(0.0, wait_s))
            getattr(self, "_" + action.kind.replace(" ", "_"))(action)
            if action.kind == "idle":
                await asyncio.sleep(0.9)
        await asyncio.sleep(0.3)
        self._faults.heal()
        self._faults.end_rival()
        await self._settle()
        await self._send_to_every_replica()
        return cluster

    async def _settle(self) -> None:
        """Replace replicas that are unhealthy or of an earlier version, as Serve does."""
        cluster = self.cluster
        for _ in range(round(SETTLING_S / CHECK_PERIOD_S)):
            for replica in self._to_replace():
                if replica.ready:
                    replica.close()
                else:
                    self._faults.kill_replica(replica, 0.0)
                if len([r for r in cluster.replicas if not r.dead and not r.closing]) < 2:
                    cluster.add_replica()
            if await accept_rolled_back(self._operators_store, TABLE):
                cluster.history.accepted.append(cluster.loop.now)
                cluster.reached["an operator accepted a store that was rolled back"] += 1
            await asyncio.sleep(CHECK_PERIOD_S)

    def _to_replace(self) -> list[Replica]:
        return [
            replica
            for replica in self.cluster.replicas
            if not replica.dead and not replica.closing
            if replica.options is not self.cluster.options or replica.is_dismissed
        ]

    async def _send_to_every_replica(self) -> None:
        cluster = self.cluster
        for replica in [each for each in cluster.serving if not each.closing]:
            self.last += [cluster.send(replica, key) for key in KEYS]
            await asyncio.sleep(0.5)
            replica.engine.check_health()
        await asyncio.sleep(0.5)  # for snapshots

    # Traffic

    def _any(self, number: int) -> Replica | None:
        serving = self.cluster.serving
        return serving[number % len(serving)] if serving else None

    def _key(self, action: Action) -> Key:
        return KEYS[action.a % len(KEYS)]

    def _predict(self, action: Action) -> None:
        if (replica := self._any(action.b)) is not None:
            self.cluster.send(replica, self._key(action))

    def _burst(self, action: Action) -> None:
        for n in range(6):
            if (replica := self._any(action.b + n)) is not None:
                self.cluster.send(replica, KEYS[(action.a + n // 3) % len(KEYS)])

    def _load(self, action: Action) -> None:
        """Send one request after the other, mostly to one replica."""
        interval_s = (0.002, 0.005, 0.02, 0.05)[action.b % 4]
        loop, sticky = self.cluster.loop, action.b % 3 > 0

        def send(n: int) -> None:
            if (replica := self._any(action.b + (0 if sticky else n))) is not None:
                self.cluster.send(replica, self._key(action))
            if n < 15:
                loop.post(loop.environment, interval_s, send, n + 1)

        send(0)

    def _cancel(self, action: Action) -> None:
        if (replica := self._any(action.b)) is not None:
            self.cluster.send(replica, self._key(action), cancel_after_s=action.amount / 10)

    def _repeat(self, action: Action) -> None:
        """Send one request three times, to one replica or to several."""
        self._repeated += 1
        request_id, loop = f"request-{self._repeated}", self.cluster.loop
        first: list[Request] = []

        def send(n: int) -> None:
            if (replica := self._any(action.b + (n if action.b % 2 else 0))) is not None:
                first.append(self.cluster.send(replica, self._key(action), request_id, first[:1]))
            if n < 2:
                loop.post(loop.environment, action.amount / 2, send, n + 1)

        send(0)

    def _batch(self, action: Action) -> None:
        """Send as many steps of a state as it keeps keys, and repeat the batch."""
        cluster = self.cluster
        self._repeated += 1
        request_ids = [f"batch-{self._repeated}-{n}" for n in range(MOST_KEYS)]
        if (replica := self._any(action.b)) is not None:
            first = cluster.send_batch(replica, self._key(action), request_ids)
            cluster.loop.post(
                cluster.loop.environment, action.amount, self._repeat_batch, action, first
            )

    def _repeat_batch(self, action: Action, first: list[Request]) -> None:
        if (replica := self._any(action.b + action.a)) is not None:
            request_ids = [str(each.request_id) for each in first]
            self.cluster.send_batch(replica, self._key(action), request_ids, first)
            self.cluster.reached["a batch of as many steps as a state keeps keys was repeated"] += 1

    def _reset(self, action: Action) -> None:
        if (replica := self._any(action.b)) is not None:
            self.cluster.reset(replica, self._key(action).run)

    def _fork(self, action: Action) -> None:
        """Fork a run to a later one: the way back would need receipts, which a fork drops."""
        run, fork = sorted((self._key(action).run, KEYS[action.b % len(KEYS)].run))
        if run != fork and (replica := self._any(action.b)) is not None:
            self.cluster.fork(replica, run, fork)

    # Faults

    def _running(self, action: Action) -> Replica | None:
        running = [each for each in self.cluster.serving if not each.process.stalled]
        return running[action.a % len(running)] if running else None

    def _actor(self, action: Action) -> Actor | None:
        actors = [actor for actor in self.cluster.present_actors if actor.current]
        return actors[action.a % len(actors)] if actors else None

    def _kill_replica(self, action: Action) -> None:
        if (replica := self._running(action)) is not None:
            noticed_after_s = None if action.amount == NEVER_NOTICED else min(action.amount, 0.05)
            self._faults.kill_replica(replica, noticed_after_s)
            self.cluster.add_replica()

    def _stall_replica(self, action: Action) -> None:
        if (replica := self._running(action)) is not None:
            self._faults.stall_replica(replica, action.amount)

    def _suspend_replica(self, action: Action) -> None:
        if (replica := self._running(action)) is not None:
            self._faults.suspend_replica(replica, action.amount)

    def _pause_replica(self, action: Action) -> None:
        if (replica := self._running(action)) is not None:
            self._faults.suspend_replica(replica, action.amount, lease_clock_stops=True)

    def _cut_replica(self, action: Action) -> None:
        if (replica := self._running(action)) is not None:
            ways = (BOTH, BOTH, THERE, BACK)[action.b % 4]
            self._faults.cut_replica(replica, action.amount, action.b % 3 > 0, ways)

    def _kill_actor(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._faults.kill_actor(actor, min(action.amount, 0.3))

    def _stall_actor(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._faults.stall_actor(actor, action.amount)

    def _suspend_actor(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._faults.suspend_actor(actor, action.amount)

    def _pause_actor(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._faults.suspend_actor(actor, action.amount, lease_clock_stops=True)

    def _move_actor(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._faults.move_actor(actor, min(action.amount, 0.1))

    def _second_process(self, action: Action) -> None:
        """Start a second process, while the first one runs, is stalled or is cut off from Ray."""
        if (actor := self._actor(action)) is None:
            return
        if action.b % 4 == 1:
            self._faults.stall_actor(actor, action.amount)
        elif action.b % 4 == 2:
            self._faults.cut(actor.node, RAY, action.amount)
        self._faults.start_second_process(actor)

    def _cut_actor_from_store(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            ways = (BOTH, THERE, BACK)[action.b % 3]
            self._faults.cut(actor.node, STORE, action.amount, action.b % 2 > 0, ways)

    def _cut_actor_from_ray(self, action: Action) -> None:
        if (actor := self._actor(action)) is not None:
            self._faults.cut(actor.node, RAY, action.amount)

    def _isolate_actor(self, action: Action) -> None:
        """Cut an actor off from the store and from Ray, but not from all replicas."""
        if (actor := self._actor(action)) is not None:
            self._faults.cut(actor.node, STORE, action.amount, silent=action.b % 2 > 0)
            self._faults.cut(actor.node, RAY, action.amount)
            for replica in self.cluster.serving[: action.b % 3]:
                self._faults.cut(replica.name, actor.node, action.amount)

    def _store_down(self, action: Action) -> None:
        if not self.cluster.store.down:
            self._faults.stop_store(action.amount)

    def _store_restarts(self, action: Action) -> None:
        if not self.cluster.store.down:
            self._faults.restart_store(min(action.amount, 0.1))

    def _store_rolls_back(self, action: Action) -> None:
        self._faults.roll_back_store(0.02 + action.amount)

    def _store_slow(self, action: Action) -> None:
        if not self.cluster.store.slow_s:
            self._faults.slow_store((0.02, 0.1, SLOWEST_S)[action.b % 3], action.amount)

    def _store_fails(self, action: Action) -> None:
        store = self.cluster.store
        if not (store.before or store.after or store.late):
            chances = ((0.3, 0, 0), (0, 0.3, 0), (0, 0, 0.3), (0.1, 0.1, 0.1))
            before, after, late = chances[action.b % 4]
            self._faults.fail_changes(before, after, late, action.amount)

    def _lose_messages(self, action: Action) -> None:
        if not self.cluster.network.lost:
            self._faults.lose_messages((0.02, 0.1)[action.b % 2], action.amount)

    def _repeat_messages(self, action: Action) -> None:
        if not self.cluster.network.repeated:
            self._faults.repeat_messages(0.1, action.amount)

    def _slow_network(self, action: Action) -> None:
        if self.cluster.network.latency_s[1] < 0.05:
            self._faults.slow_network(((0.001, 0.05), (0.02, 0.1))[action.b % 2], action.amount)

    # What operators do

    def _idle(self, action: Action) -> None:
        pass

    def _close_replica(self, action: Action) -> None:
        open_ones = [each for each in self.cluster.serving if not each.closing]
        if len(open_ones) > 1:
            open_ones[action.a % len(open_ones)].close()

    def _restart_and_close(self, action: Action) -> None:
        """Kill an actor, and close a replica before the next term acts."""
        self._kill_actor(action)
        loop = self.cluster.loop
        self.cluster.reached["a replica closed during a takeover"] += 1
        loop.post(loop.environment, min(action.amount, 0.1), self._close_replica, action)

    def _add_replica(self, action: Action) -> None:
        if len(self.cluster.serving) < 4:
            self.cluster.add_replica()

    def _change_layout(self, action: Action) -> None:
        """Roll out other shards or another durability: start replicas, then close the old ones."""
        cluster = self.cluster
        shards = 1 + action.a % 3
        durability = cluster.options.durability if action.b % 3 else MODES[action.b % len(MODES)]
        if (shards, durability) == (cluster.options.shards, cluster.options.durability):
            return
        cluster.change_options(shards=shards, durability=durability)
        for replica in cluster.serving:
            cluster.loop.post(cluster.loop.environment, action.amount, self._close_if_old, replica)
        cluster.add_replica()
        cluster.add_replica()
        if cluster.history.steps:
            cluster.reached["a change of layout with states"] += 1

    def _close_if_old(self, replica: Replica) -> None:
        if replica.serves and not replica.closing and len(self.cluster.serving) > 1:
            replica.close()

    def _change_policy(self, action: Action) -> None:
        """Let a canary answer other runs; each replica adopts it at another time."""
        cluster = self.cluster
        cluster.canary_runs = (frozenset("a"), frozenset("ab"), frozenset())[action.a % 3]
        for replica in cluster.replicas:
            delay_s = cluster.random.random() * min(action.amount, 0.1)
            cluster.loop.post(
                replica.process, delay_s, setattr, replica, "canary_runs", cluster.canary_runs
            )
        if cluster.history.steps:
            cluster.reached["the policy of runs changed"] += 1

    def _restart_with_other_options(self, action: Action) -> None:
        present = self.cluster.options
        self.cluster.change_options(
            durability=MODES[action.a % len(MODES)],
            shards=1 + action.b % 3,
            restore_after_restart=action.a % 3 > 0,
            snapshot_period_s=OPTIONS.snapshot_period_s * (1 + action.b % 2),
            run_ttl_s=OTHER_TTL_S if action.a % 8 > 3 else present.run_ttl_s,
        )
        self.cluster.reached["everything restarted with other options"] += 1
        self._restart_all(action)

    def _restart_all(self, action: Action) -> None:
        cluster = self.cluster
        if cluster.history.steps:
            cluster.reached["everything restarted with states"] += 1
        if cluster.rival is not None:
            self._faults.end_in_favour_of_rival()
            return
        self._faults.restart_everything()
        for _ in range(2):
            cluster.add_replica()

    def _second_cluster(self, action: Action) -> None:
        if self.cluster.rival is None:
            self.cluster.add_rival()
            self.cluster.reached["two clusters with one store"] += 1
