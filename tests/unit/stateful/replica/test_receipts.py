"""One key, one step: repeated at once, after a move, and over restarts of the authority."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import MAX_RECEIPTS, Key, KeyReusedError, Receipt
from deployments.stateful.replica.receipts import ReceiptCache, fingerprint_of
from deployments.stateful.replica.batcher import Decision
from tests.unit.inference.policies import POLICY, SMALL
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, Replica, World, gather, settings

KEY = Key("run", SMALL)
OBS = [0.25, 0.5]


def receipt(n: int) -> Receipt:
    return Receipt(f"key-{n}", "print", n, 0, 0.5)


class TestBook:
    def test_a_receipt_is_found_by_its_key_and_observation_alone(self):
        book = ReceiptCache((receipt(1), receipt(2)))
        assert book.find("key-2", "print") == receipt(2)
        assert book.find("key-3", "print") is None
        with pytest.raises(KeyReusedError):
            book.find("key-2", "another")

    def test_the_newest_are_kept_in_the_order_of_their_steps(self):
        book = ReceiptCache(tuple(receipt(n) for n in range(MAX_RECEIPTS)))
        for n in range(MAX_RECEIPTS, MAX_RECEIPTS + 6):
            book.add(receipt(n))
        assert book.all() == tuple(receipt(n) for n in range(6, MAX_RECEIPTS + 6))
        assert book.find("key-5", "print") is None

    def test_those_of_later_steps_are_in_their_order(self):
        book = ReceiptCache(tuple(receipt(n) for n in range(1, 8)))
        assert book.since(4) == (receipt(5), receipt(6), receipt(7))
        assert book.since(7) == ()
        assert ReceiptCache().since(0) == ()

    def test_observations_are_told_apart_by_every_value_and_their_number(self):
        different = [[], [0.0], [-0.0], [0.0, 0.0], [1.0], [1.0 + 3e-16]]
        assert len({fingerprint_of(obs) for obs in different}) == len(different)


async def step(replica: Replica, request_id: str, obs: list[float] = OBS) -> Decision:
    return await replica.stepper.submit(KEY, obs, request_id=request_id)


async def stepped_three_times(world: World) -> list[Decision]:
    """Step with key k0, without one, and with k1."""
    await world.start(2)
    replica = world.replicas[0]
    first = await step(replica, "k0")
    await replica.stepper.submit(KEY, OBS)
    second = await step(replica, "k1")
    assert [first.step, second.step] == [1, 3]
    return [first, second]


async def assert_repeated(replica: Replica, decisions: list[Decision]) -> None:
    """Assert that both keys are answered as before, and that no step was made."""
    for n, decision in enumerate(decisions):
        assert await step(replica, f"k{n}") == decision
        with pytest.raises(KeyReusedError):
            await step(replica, f"k{n}", [0.75])
    assert (await replica.stepper.submit(KEY, OBS)).step == 4


@virtual_time
async def test_a_repeated_request_is_answered_as_before_and_makes_no_step():
    world = World(policy=POLICY)
    decisions = await stepped_three_times(world)
    await assert_repeated(world.replicas[0], decisions)


@virtual_time
async def test_duplicates_at_once_share_one_step():
    world = await World(policy=POLICY).start()
    replica = world.replicas[0]
    decisions = await gather(*(step(replica, "k") for _ in range(100)))
    assert set(decisions) == {decisions[0]}
    assert (await replica.stepper.submit(KEY, OBS)).step == 2


@virtual_time
async def test_duplicates_at_several_replicas_share_one_step():
    world = await World(policy=POLICY).start(3)
    decisions = await gather(*(step(world.replicas[n % 3], "k") for n in range(30)))
    assert set(decisions) == {decisions[0]}
    assert (await world.replicas[0].stepper.submit(KEY, OBS)).step == 2


@virtual_time
async def test_a_key_is_known_where_the_state_has_moved():
    world = World(policy=POLICY)
    decisions = await stepped_three_times(world)
    await assert_repeated(world.replicas[1], decisions)


@virtual_time
async def test_a_key_is_known_where_the_state_has_moved_twice_and_been_stepped_between():
    world = await World(policy=POLICY).start(2)
    decisions = [await step(world.replicas[n % 2], f"k{n}") for n in range(20)]
    assert [decision.step for decision in decisions] == list(range(1, 21))
    for n, decision in enumerate(decisions):
        assert await step(world.replicas[(n + 1) % 2], f"k{n}") == decision


@virtual_time
async def test_a_key_is_known_after_a_restart_because_its_owner_claims_it():
    world = World(policy=POLICY, settings=settings(snapshot_period_s=1000.0))
    decisions = await stepped_three_times(world)
    await world.kill_authority()
    await asyncio.sleep(0.3)
    await assert_repeated(world.replicas[1], decisions)


@virtual_time
async def test_a_key_is_known_after_a_restart_because_it_is_in_the_copy():
    world = World(policy=POLICY)
    decisions = await stepped_three_times(world)
    await asyncio.sleep(2 * FAST.snapshot_period_s)
    world.kill_replica(world.replicas[0])
    await world.kill_authority()
    await assert_repeated(world.replicas[1], decisions)


@virtual_time
async def test_a_key_is_known_after_a_layout_has_changed():
    world = World(policy=POLICY)
    decisions = await stepped_three_times(world)
    await world.lay_out(3)
    await assert_repeated(await world.add_replica(), decisions)


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
@virtual_time
async def test_a_key_whose_commits_are_lost_and_repeated_is_still_one_step(strict):
    world = await World(policy=POLICY, settings=settings(strict=strict), seed=5).start(2)
    world.network.lost_reply = world.network.lost_request = 0.1
    decisions = [await _stubborn(world.replicas[n % 2], f"k{n}") for n in range(40)]
    assert [decision.step for decision in decisions] == list(range(1, 41))
    assert world.messages_lost > 10


async def _stubborn(replica: Replica, request_id: str) -> Decision:
    while True:
        try:
            return await step(replica, request_id)
        except Exception:  # whatever it was, the same key may be asked again
            await asyncio.sleep(0.05)


@virtual_time
async def test_the_newest_keys_are_known_after_a_move_and_older_ones_step_again():
    world = await World(policy=POLICY).start(2)
    first, second = world.replicas
    decisions = [await step(first, f"k{n}") for n in range(MAX_RECEIPTS + 1)]
    assert await step(second, "k1") == decisions[1]
    assert (await step(second, "k0")).step == MAX_RECEIPTS + 2
    assert await step(first, "k2") == decisions[2]


@virtual_time
async def test_a_reset_forgets_the_keys_of_its_run():
    world = World(policy=POLICY)
    await stepped_three_times(world)
    await world.reset(world.replicas[0], KEY.run)
    assert (await step(world.replicas[0], "k1", [0.75])).step == 1


@virtual_time
async def test_in_strict_mode_a_repeated_request_waits_for_the_commit_of_its_step():
    world = await World(policy=POLICY, settings=settings(strict=True)).start()
    replica = world.replicas[0]
    await replica.stepper.submit(KEY, OBS)
    world.network.latency_s = (0.05, 0.05)
    first = replica.stepper.submit(KEY, OBS, request_id="k")
    await asyncio.sleep(0.02)
    again = replica.stepper.submit(KEY, OBS, request_id="k")
    await asyncio.sleep(0.02)
    assert not again.done()
    assert await first == await again
