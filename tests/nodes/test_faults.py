"""What clients see when a machine of a cluster dies, or cannot be reached."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import pytest

from deployments.stateful.shards import LEASE_S
from load_tests.chaos.checker import Harm
from load_tests.harness.waiting import wait_until
from tests.nodes.cluster import Cluster
from tests.nodes.node import Node
from tests.nodes.watch import PATHS, Watch, watched

AWAY_S = 2 * 10.0  # one small machine carries all nodes, and starts what was on the lost one
SLACK_S = 0.25  # for two busy cores
LOSS_S = 0.01 + SLACK_S
RECOVERY_S = 30.0
SPREAD_S = 60.0
GIVEN_UP_S = 8.0  # by then Ray has given up a node that is cut off, and started what was there
LOST_STEPS = 5
STEPS_OF_A_TERM = 60  # of the clients of both nodes, in the lease of the home that is cut off


@asynccontextmanager
async def clients_of(
    nodes: Collection[Node],
    survivors: Collection[Node],
    away_s: float = AWAY_S,
    lost_steps: int = LOST_STEPS,
) -> AsyncIterator[Watch]:
    """Load all nodes, then wait until the survivors serve again, and check the promises."""
    async with watched(nodes) as watch:
        yield watch
        await eventually(lambda: watch.all_answered_since(watch.fault[1], survivors))
    print(f"\n{watch}")  # noqa: T201 - the figures for the documentation
    await asyncio.to_thread(check, watch, survivors, away_s, lost_steps)


async def eventually(condition: Callable[[], bool], timeout_s: float = RECOVERY_S) -> None:
    await asyncio.to_thread(wait_until, condition, timeout_s, "as it was before")


def check(watch: Watch, survivors: Collection[Node], away_s: float, lost_steps: int) -> None:
    for node in survivors:
        assert watch.missing(through=node) == []
        for service in PATHS:
            assert watch.away_s(service, node) < away_s, f"{service} at node {node.number}"
    for service in ("inference", "lossless"):
        assert watch.silent_s(service) < 3 * away_s  # a busy machine takes longer
        verdict = watch.verdict(service)
        harms = [str(each) for each in verdict.findings]
        assert not verdict.steps(Harm.DOUBLED) + verdict.steps(Harm.REVIVED), harms
        if service == "lossless":
            assert not verdict.steps(Harm.LOST), harms
        assert verdict.steps(Harm.LOST) <= lost_steps, harms
        assert watch.lost_s(service) < LOSS_S, harms


def with_a_state_actor(cluster: Cluster) -> tuple[Node, Node]:
    """Return a worker to which something will happen, and the other one."""
    victim = next(node for node in cluster.workers if node.state_actors())
    (survivor,) = [node for node in cluster.workers if node is not victim]
    return victim, survivor


@pytest.mark.parametrize("how", [Node.kill_raylet, Node.kill], ids=["raylet", "everything"])
async def test_a_node_dies_and_comes_back(cluster, how):
    victim, survivor = with_a_state_actor(cluster)
    async with back_afterwards(cluster, victim), clients_of(cluster.workers, [survivor]) as watch:
        with watch.happening():
            await asyncio.to_thread(how, victim)
            await eventually(lambda: not victim.find("ray::ServeReplica"))


async def test_the_head_dies_and_is_started_again(cluster):
    async with clients_of(cluster.workers, cluster.workers) as watch:
        with watch.happening():
            await asyncio.to_thread(cluster.head.kill)
        await asyncio.to_thread(cluster.start, cluster.head)
        await eventually(lambda: len(cluster.head.find("ray::ServeController")) == 1)


async def test_a_node_is_cut_off_from_the_others(cluster):
    """Both sides have clients, and both reach the store: only its terms keep them apart."""
    victim, survivor = with_a_state_actor(cluster)
    others = [survivor.number, cluster.head.number]
    async with back_afterwards(cluster, victim), clients_of(cluster.workers, [survivor]) as watch:
        with watch.happening():  # until its term ends, a home does not know that it is cut off
            with cluster.network.cut(victim.number, others):
                since = time.monotonic() + GIVEN_UP_S
                await eventually(lambda: watch.all_answered_since(since, [survivor]))
            await eventually(lambda: not victim.find("ray::ServeReplica"))  # Ray takes it for dead


async def test_a_node_that_is_cut_off_from_the_store_too_stops_before_another_begins(cluster):
    victim, survivor = with_a_state_actor(cluster)
    others = [survivor.number, cluster.head.number]
    clients = clients_of(cluster.workers, [survivor], lost_steps=STEPS_OF_A_TERM)
    async with back_afterwards(cluster, victim), clients as watch:
        with (
            watch.happening(),
            cluster.network.cut(victim.number, others),
            cluster.network.cut_from_store(victim.number),
        ):
            since = time.monotonic() + GIVEN_UP_S
            await eventually(lambda: watch.all_answered_since(since, [survivor]))
        began, _ = watch.fault
    lost = [each for each in watch.verdict("inference").findings if each.harm is Harm.LOST]
    assert max((each.answer.done for each in lost), default=began) < began + LEASE_S + SLACK_S


async def test_a_node_that_is_cut_off_from_the_store_alone_goes_on(cluster):
    victim, _ = with_a_state_actor(cluster)
    async with clients_of(cluster.workers, cluster.workers, lost_steps=0) as watch:
        with watch.happening(), cluster.network.cut_from_store(victim.number):
            await asyncio.sleep(3 * LEASE_S)
    for node in cluster.workers:
        assert watch.away_s("inference", node) < LEASE_S


async def test_a_node_that_is_added_takes_the_place_of_one_that_goes(cluster):
    victim, survivor = with_a_state_actor(cluster)
    new = await asyncio.to_thread(cluster.add_node, max(cluster.nodes) + 1)
    # Everything that the other had starts on the new one at once, and half of the states are there.
    async with clients_of([victim, survivor], [survivor], 2 * AWAY_S) as watch:
        with watch.happening():
            await asyncio.to_thread(cluster.remove_node, victim)
        await eventually(lambda: cluster.is_spread(survivor, new), SPREAD_S)


@asynccontextmanager
async def back_afterwards(cluster: Cluster, node: Node) -> AsyncIterator[None]:
    """Start a node again, as its supervisor does, and wait until it has its share."""
    try:
        yield
    finally:
        node.kill()
        await asyncio.to_thread(cluster.start, node)
    await eventually(lambda: cluster.is_spread(*cluster.workers), SPREAD_S)
