"""Carries out a schedule, and lets the service recover from it."""

from __future__ import annotations

import asyncio

from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.actions import FAULTS, Action, Schedule
from tests.unit.stateful.simulation.faults import Faults
from tests.unit.stateful.simulation.history import Asked
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.replica import Replica
from tests.unit.stateful.simulation.world import KEYS, World

RECOVERY_S = 0.9  # single faults are promised to be survived: the next comes after this
SETTLING_S = 2.4
CHECK_PERIOD_S = 0.3
LONGEST_START_S = 3.0


class Play:
    def __init__(self, schedule: Schedule, loop: SimulatedLoop) -> None:
        self.schedule = schedule
        self.world = World(
            loop,
            schedule.options,
            schedule.seed,
            schedule.drift,
            schedule.latency_s,
            schedule.form,
        )
        self.faults = Faults(self.world)
        self.last: list[Asked] = []
        self._attempts = 0

    async def run(self) -> World:
        world = self.world
        for _ in range(self.schedule.n_replicas):
            world.add_replica()
        await self._until_somebody_serves()
        for action in self.schedule.actions:
            await asyncio.sleep(action.after)
            if action.is_fault and self.schedule.spaced:
                wait = self.faults.last_end + RECOVERY_S - world.loop.now
                await asyncio.sleep(max(0.0, wait))
            self.carry_out(action)
            if action.kind == "idle":
                await asyncio.sleep(0.9)
        await asyncio.sleep(0.3)
        self.faults.heal()
        await self._settle()
        await self._ask_everybody()
        return world

    async def _until_somebody_serves(self) -> None:
        async with asyncio.timeout(LONGEST_START_S):
            while not self.world.serving:
                await asyncio.sleep(0.01)

    async def _settle(self) -> None:
        """Do as Serve does: replace what is not healthy, or of an earlier version."""
        for _ in range(round(SETTLING_S / CHECK_PERIOD_S)):
            for replica in self._to_replace():
                if replica.ready:
                    replica.close()
                else:
                    self.faults.kill(replica, 0.0)
                if len([r for r in self.world.replicas if not r.dead and not r.closing]) < 2:
                    self.world.add_replica()
            await asyncio.sleep(CHECK_PERIOD_S)

    def _to_replace(self) -> list[Replica]:
        shards = self.world.options.shards
        return [
            replica
            for replica in self.world.replicas
            if not replica.dead and not replica.closing
            if replica.options.shards != shards or replica.is_dismissed
        ]

    async def _ask_everybody(self) -> None:
        """Ask every replica for every key; each must answer."""
        world = self.world
        for replica in [r for r in world.serving if not r.closing]:
            self.last += [world.ask(replica, key) for key in KEYS]
            await asyncio.sleep(0.5)
            replica.engine.check_health()
        await asyncio.sleep(0.5)  # for copies

    def carry_out(self, action: Action) -> None:
        kind = action.kind
        if kind in FAULTS:
            self.faults.carry_out(action)
        else:
            getattr(self, "_" + kind.replace(" ", "_"))(action)

    # Traffic

    def _any(self, number: int) -> Replica | None:
        serving = self.world.serving
        return serving[number % len(serving)] if serving else None

    def _key(self, action: Action) -> Key:
        return KEYS[action.a % len(KEYS)]

    def _predict(self, action: Action) -> None:
        if (replica := self._any(action.b)) is not None:
            self.world.ask(replica, self._key(action))

    def _burst(self, action: Action) -> None:
        for n in range(6):
            if (replica := self._any(action.b + n)) is not None:
                self.world.ask(replica, KEYS[(action.a + n // 3) % len(KEYS)])

    def _load(self, action: Action) -> None:
        """One request after the other, mostly to one replica."""
        interval_s = (0.002, 0.005, 0.02, 0.05)[action.b % 4]
        loop, sticky = self.world.loop, action.b % 3 > 0

        def ask(n: int) -> None:
            if (replica := self._any(action.b + (0 if sticky else n))) is not None:
                self.world.ask(replica, self._key(action))
            if n < 15:
                loop.post(loop.world, interval_s, ask, n + 1)

        ask(0)

    def _cancel(self, action: Action) -> None:
        if (replica := self._any(action.b)) is not None:
            self.world.ask(replica, self._key(action), cancel_after_s=action.amount / 10)

    def _repeat(self, action: Action) -> None:
        """One step that is asked for three times, at one replica or at several."""
        self._attempts += 1
        request_id, loop = f"request-{self._attempts}", self.world.loop
        first: list[Asked] = []

        def ask(n: int) -> None:
            if (replica := self._any(action.b + (n if action.b % 2 else 0))) is not None:
                first.append(self.world.ask(replica, self._key(action), request_id, first[:1]))
            if n < 2:
                loop.post(loop.world, action.amount / 2, ask, n + 1)

        ask(0)

    def _reset(self, action: Action) -> None:
        if (replica := self._any(action.b)) is not None:
            self.world.reset(replica, self._key(action).run)

    # What operators do

    def _idle(self, action: Action) -> None:
        pass

    def _close_replica(self, action: Action) -> None:
        open_ones = [r for r in self.world.serving if not r.closing]
        if len(open_ones) > 1:
            open_ones[action.a % len(open_ones)].close()

    def _restart_and_close(self, action: Action) -> None:
        """Kill an authority, and close a replica before the next life has begun to act."""
        self.faults.carry_out(action._replace(kind="kill authority"))
        loop = self.world.loop
        self.world.met["a replica closed during a restart of the authority"] += 1
        loop.post(loop.world, min(action.amount, 0.1), self._close_replica, action)

    def _add_replica(self, action: Action) -> None:
        if len(self.world.serving) < 4:
            self.world.add_replica()

    def _change_layout(self, action: Action) -> None:
        """Roll out another number of shards: new replicas first, then the old ones go."""
        world = self.world
        shards = 1 + action.a % 3
        if shards == world.options.shards:
            return
        world.options = world.options.model_copy(update={"shards": shards})
        for replica in world.serving:
            world.loop.post(world.loop.world, action.amount, self._close_if_old, replica)
        world.add_replica()
        world.add_replica()
        if world.history.states:
            world.met["a change of layout with states"] += 1

    def _close_if_old(self, replica: Replica) -> None:
        if replica.serves and not replica.closing and len(self.world.serving) > 1:
            replica.close()

    def _restart_all(self, action: Action) -> None:
        world = self.world
        world.history.restarts.append(world.loop.now)
        if world.history.states:
            world.met["everything restarted with states"] += 1
        for replica in world.replicas:
            if not replica.dead:
                self.faults.kill(replica, 0.0)
        for actor in world.actors.values():
            for life in list(actor.lives):
                actor.lose(life, restart=False)
        world.actors.clear()
        world.session += "'"
        for _ in range(2):
            world.add_replica()
