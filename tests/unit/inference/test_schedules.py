"""Any mixture of requests and faults keeps the laws of :mod:`.lineage`: Hypothesis mixes them."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import Key
from tests.unit.inference.lineage import Asked, Outcome
from tests.unit.inference.virtual_time import virtual_time
from tests.unit.inference.world import FAST, Network, Replica, World
from tests.unit.inference.world import settings as lease_settings

KEYS = [Key("a", "300839359"), Key("a", "265580972"), Key("b", "300839359")]
LOSS_S = 0.010  # answered so shortly before the fault of its replica, a step may be lost
RECOVERY_S = 1.0  # single faults are promised to be survived: the next comes after this


class Action(NamedTuple):
    kind: str
    which: int
    key: int
    amount: float


def actions_of(*faults: str) -> st.SearchStrategy[list[Action]]:
    which, key = st.integers(0, 5), st.integers(0, len(KEYS) - 1)
    amount = st.sampled_from([0.0, 0.0003, 0.002, 0.02, 0.3])

    def action(*kinds: str) -> st.SearchStrategy[Action]:
        return st.builds(Action, st.sampled_from(kinds), which, key, amount)

    traffic = action("predict", "burst", "wait")
    fault = action(*(faults or ("predict",)))
    return st.lists(st.one_of(traffic, traffic, traffic, fault), min_size=10, max_size=60)


class Play:
    """Carries out actions; at the end every replica must answer for every key."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: list[asyncio.Task[object]] = []
        self.last_fault = -RECOVERY_S
        self.now = asyncio.get_running_loop().time

    async def run(self, actions: list[Action]) -> None:
        for action in actions:
            await self.carry_out(action)
        for replica in self.living:
            replica.resume()
        async with asyncio.timeout(60):
            await asyncio.gather(*self.jobs)
        for replica in self.living:
            for key in KEYS:
                last = await self.world.predict(replica, key)
                assert last.outcome is Outcome.ANSWERED, "the service has not recovered"
            replica.leases.check_health()
        self.world.history.check(self.may_be_lost)
        pending = [a for a in self.world.history.asked if a.outcome is Outcome.PENDING]
        dead = {replica.name for replica in self.world.replicas if replica.dead}
        assert all(asked.replica in dead for asked in pending), "a request hangs"

    @property
    def living(self) -> list[Replica]:
        return [replica for replica in self.world.replicas if not replica.dead]

    @property
    def running(self) -> list[Replica]:
        return [replica for replica in self.living if not replica.paused]

    async def carry_out(self, action: Action) -> None:
        world, key, running = self.world, KEYS[action.key], self.running
        if action.kind == "wait":
            await asyncio.sleep(action.amount)
        if not running:
            return
        replica = running[action.which % len(running)]
        if action.kind == "predict":
            self.start(world.predict(replica, key))
        elif action.kind == "burst":
            for n in range(5):
                self.start(world.predict(running[(action.which + n) % len(running)], key))
        elif action.kind == "cancel":
            _, answer = world.ask(replica, key)
            asyncio.get_running_loop().call_later(action.amount, answer.cancel)
        elif action.kind == "reset":
            self.start(world.reset(replica, key.run))
        elif self.now() - self.last_fault > RECOVERY_S:
            await self.fail(action, replica, key)

    async def fail(self, action: Action, replica: Replica, key: Key) -> None:
        self.last_fault = self.now()
        if action.kind == "restart":
            await self.world.kill_authority(key, down_s=action.amount)
        elif len(self.running) == 1:
            return
        elif action.kind == "kill":
            self.world.kill_replica(replica, 0.01 if action.amount else None)
            await self.world.add_replica()
        elif action.kind == "pause":
            replica.pause()
            asyncio.get_running_loop().call_later(action.amount, replica.resume)

    def start(self, work: object) -> None:
        self.jobs.append(asyncio.ensure_future(work))  # type: ignore[call-overload]

    def may_be_lost(self, asked: Asked) -> bool:
        if self.world.settings.strict or asked.answered is None:
            return False
        (replica,) = (r for r in self.world.replicas if r.name == asked.replica)
        return any(0 <= fault - asked.answered <= LOSS_S for fault in replica.faults)


def play(
    actions: list[Action],
    seed: int,
    lease: InferenceOptions = FAST,
    network: Network | None = None,
    n_shards: int = 1,
) -> None:
    @virtual_time
    async def in_virtual_time() -> None:
        world = World(lease, network or Network(), seed=seed, n_shards=n_shards)
        await Play(await world.start(3)).run(actions)

    in_virtual_time()


STRICT = lease_settings(strict=True)
EVERYTHING = ("cancel", "reset", "kill", "pause", "restart")
SEEDS = st.integers(0, 2**16)
often = settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes; add it to study a failure
)


@often
@given(actions_of(), SEEDS)
def test_replicas_share_junctions(actions: list[Action], seed: int) -> None:
    play(actions, seed)


@pytest.mark.parametrize("lease", [FAST, STRICT], ids=["default", "strict"])
@pytest.mark.parametrize("fault", EVERYTHING)
@often
@given(data=st.data(), seed=SEEDS)
def test_one_kind_of_fault(
    lease: InferenceOptions, fault: str, data: st.DataObject, seed: int
) -> None:
    play(data.draw(actions_of(fault)), seed, lease)


@pytest.mark.parametrize("lease", [FAST, STRICT], ids=["default", "strict"])
@often
@given(data=st.data(), seed=SEEDS)
def test_every_kind_of_fault(lease: InferenceOptions, data: st.DataObject, seed: int) -> None:
    play(data.draw(actions_of(*EVERYTHING)), seed, lease)


@often
@given(actions_of("cancel", "reset"), SEEDS)
def test_messages_get_lost(actions: list[Action], seed: int) -> None:
    play(actions, seed, network=Network(lost_request=0.03, lost_reply=0.03))


@often
@given(actions_of(*EVERYTHING), SEEDS)
def test_several_authorities(actions: list[Action], seed: int) -> None:
    play(actions, seed, n_shards=3)


@often
@given(actions_of(*EVERYTHING), SEEDS)
def test_a_slow_network(actions: list[Action], seed: int) -> None:
    strict_and_slow = lease_settings(strict=True, lease_s=1.0)
    play(actions, seed, strict_and_slow, Network(latency_s=(0.001, 0.08)))
