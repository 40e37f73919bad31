"""Any mixture of requests and faults keeps the laws of :mod:`.lineage`: Hypothesis mixes them."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import Key
from deployments.inference.replica.stepper import Decision
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
    """Carries out actions; at the end every replica must answer for every key.

    Attributes:
        met: by kind, what met requests under way: resets, faults, lost messages, moves of a state.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.met: Counter[str] = Counter()
        self.jobs: list[asyncio.Task[object]] = []
        self.last_fault = -math.inf
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
        self.met["lost"] += self.world.messages_lost
        self.met["move"] += sum(replica.leases.counts.recalls for replica in self.world.replicas)

    @property
    def living(self) -> list[Replica]:
        return [replica for replica in self.world.replicas if not replica.dead]

    @property
    def running(self) -> list[Replica]:
        return [replica for replica in self.living if not replica.paused]

    async def carry_out(self, action: Action) -> None:
        if action.kind == "wait":
            await asyncio.sleep(action.amount)
            return
        world, key, running = self.world, KEYS[action.key], self.running
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
            asyncio.get_running_loop().call_later(action.amount, self.cancel, answer)
        elif action.kind == "reset":
            self.note("reset")
            self.start(world.reset(replica, key.run))
        elif self.now() - self.last_fault > RECOVERY_S:
            await self.fail(action, replica, key)

    def note(self, kind: str) -> None:
        if any(not job.done() for job in self.jobs):
            self.met[kind] += 1

    def cancel(self, answer: asyncio.Future[Decision]) -> None:
        if answer.cancel():
            self.met["cancel"] += 1

    async def fail(self, action: Action, replica: Replica, key: Key) -> None:
        self.last_fault = self.now()
        if action.kind == "restart":
            self.note("restart")
            await self.world.kill_authority(key, down_s=action.amount)
            return
        if len(self.running) == 1:
            return
        self.note(action.kind)
        if action.kind == "kill":
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


def play_often(
    actions: st.SearchStrategy[list[Action]],
    lease: InferenceOptions = FAST,
    network: Network | None = None,
    n_shards: int = 1,
) -> Counter[str]:
    """Play many mixtures, and return what met requests under way, and how often."""
    met: Counter[str] = Counter()

    @often
    @given(actions, SEEDS)
    def play_each(actions: list[Action], seed: int) -> None:
        met.update(play(actions, seed))

    @virtual_time
    async def play(actions: list[Action], seed: int) -> Counter[str]:
        world = World(lease, network or Network(), seed=seed, n_shards=n_shards)
        played = Play(await world.start(3))
        await played.run(actions)
        return played.met

    play_each()
    return met


def test_replicas_share_junctions() -> None:
    assert play_often(actions_of())["move"] > 0


@pytest.mark.parametrize("lease", [FAST, STRICT], ids=["default", "strict"])
@pytest.mark.parametrize("fault", EVERYTHING)
def test_one_kind_of_fault(lease: InferenceOptions, fault: str) -> None:
    assert play_often(actions_of(fault), lease)[fault] > 0


@pytest.mark.parametrize("lease", [FAST, STRICT], ids=["default", "strict"])
def test_every_kind_of_fault(lease: InferenceOptions) -> None:
    met = play_often(actions_of(*EVERYTHING), lease)
    assert all(met[kind] > 0 for kind in (*EVERYTHING, "move")), met


def test_messages_get_lost() -> None:
    met = play_often(
        actions_of("cancel", "reset"), network=Network(lost_request=0.03, lost_reply=0.03)
    )
    assert all(met[kind] > 0 for kind in ("lost", "cancel", "reset", "move")), met


def test_several_authorities() -> None:
    met = play_often(actions_of(*EVERYTHING), n_shards=3)
    assert all(met[kind] > 0 for kind in (*EVERYTHING, "move")), met


def test_a_slow_network() -> None:
    strict_and_slow = lease_settings(strict=True, lease_s=1.0)
    network = Network(latency_s=(0.001, 0.08))
    met = play_often(actions_of(*EVERYTHING), strict_and_slow, network)
    assert all(met[kind] > 0 for kind in (*EVERYTHING, "move")), met
