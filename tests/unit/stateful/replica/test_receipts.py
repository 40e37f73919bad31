"""One key, one step: repeated at once, after a move, and over restarts of the authority."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import MAX_RECEIPTS, Key, KeyReusedError, Receipt
from deployments.stateful.replica.queues import StepResult
from deployments.stateful.replica.receipts import ReceiptCache
from tests.unit.stateful.models import ENTITIES, MODEL
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, Replica, World, gather, settings

KEY = Key("run", ENTITIES[0])
INPUT = 25


def receipt(n: int) -> Receipt:
    return Receipt(f"key-{n}", "print", n, (0, 0.5))


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


async def step(replica: Replica, request_id: str, value: int = INPUT) -> StepResult:
    return await replica.batcher.submit(KEY, value, request_id=request_id, fingerprint=str(value))


async def stepped_three_times(world: World) -> list[StepResult]:
    """Step with key k0, without one, and with k1."""
    await world.start(2)
    replica = world.replicas[0]
    first = await step(replica, "k0")
    await replica.batcher.submit(KEY, INPUT)
    second = await step(replica, "k1")
    assert [first.step, second.step] == [1, 3]
    return [first, second]


async def assert_repeated(replica: Replica, results: list[StepResult]) -> None:
    """Assert that both keys are answered as before, and that no step was made."""
    for n, result in enumerate(results):
        assert await step(replica, f"k{n}") == result
        with pytest.raises(KeyReusedError):
            await step(replica, f"k{n}", 75)
    assert (await replica.batcher.submit(KEY, INPUT)).step == 4


@virtual_time
async def test_a_repeated_request_is_answered_as_before_and_makes_no_step():
    world = World(a_model=MODEL)
    results = await stepped_three_times(world)
    await assert_repeated(world.replicas[0], results)


@virtual_time
async def test_duplicates_at_once_share_one_step():
    world = await World(a_model=MODEL).start()
    replica = world.replicas[0]
    results = await gather(*(step(replica, "k") for _ in range(100)))
    assert set(results) == {results[0]}
    assert (await replica.batcher.submit(KEY, INPUT)).step == 2


@virtual_time
async def test_duplicates_at_several_replicas_share_one_step():
    world = await World(a_model=MODEL).start(3)
    results = await gather(*(step(world.replicas[n % 3], "k") for n in range(30)))
    assert set(results) == {results[0]}
    assert (await world.replicas[0].batcher.submit(KEY, INPUT)).step == 2


@virtual_time
async def test_a_key_is_known_where_the_state_has_moved():
    world = World(a_model=MODEL)
    results = await stepped_three_times(world)
    await assert_repeated(world.replicas[1], results)


@virtual_time
async def test_a_key_is_known_where_the_state_has_moved_twice_and_been_stepped_between():
    world = await World(a_model=MODEL).start(2)
    results = [await step(world.replicas[n % 2], f"k{n}") for n in range(20)]
    assert [result.step for result in results] == list(range(1, 21))
    for n, result in enumerate(results):
        assert await step(world.replicas[(n + 1) % 2], f"k{n}") == result


@virtual_time
async def test_a_key_is_known_after_a_restart_because_its_owner_claims_it():
    world = World(a_model=MODEL, settings=settings(snapshot_period_s=1000.0))
    results = await stepped_three_times(world)
    await world.kill_authority()
    await asyncio.sleep(0.3)
    await assert_repeated(world.replicas[1], results)


@virtual_time
async def test_a_key_is_known_after_a_restart_because_it_is_in_the_copy():
    world = World(a_model=MODEL)
    results = await stepped_three_times(world)
    await asyncio.sleep(2 * FAST.snapshot_period_s)
    world.kill_replica(world.replicas[0])
    await world.kill_authority()
    await assert_repeated(world.replicas[1], results)


@virtual_time
async def test_a_key_is_known_after_a_layout_has_changed():
    world = World(a_model=MODEL)
    results = await stepped_three_times(world)
    await world.lay_out(3)
    await assert_repeated(await world.add_replica(), results)


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
@virtual_time
async def test_a_key_whose_commits_are_lost_and_repeated_is_still_one_step(strict):
    world = await World(
        a_model=MODEL, settings=settings(durability="actor" if strict else "memory"), seed=5
    ).start(2)
    world.network.lost_reply = world.network.lost_request = 0.1
    results = [await _stubborn(world.replicas[n % 2], f"k{n}") for n in range(40)]
    assert [result.step for result in results] == list(range(1, 41))
    assert world.messages_lost > 10


async def _stubborn(replica: Replica, request_id: str) -> StepResult:
    while True:
        try:
            return await step(replica, request_id)
        except Exception:  # whatever it was, the same key may be asked again
            await asyncio.sleep(0.05)


@virtual_time
async def test_the_newest_keys_are_known_after_a_move_and_older_ones_step_again():
    world = await World(a_model=MODEL).start(2)
    first, second = world.replicas
    results = [await step(first, f"k{n}") for n in range(MAX_RECEIPTS + 1)]
    assert await step(second, "k1") == results[1]
    assert (await step(second, "k0")).step == MAX_RECEIPTS + 2
    assert await step(first, "k2") == results[2]


@virtual_time
async def test_a_reset_forgets_the_keys_of_its_run():
    world = World(a_model=MODEL)
    await stepped_three_times(world)
    await world.reset(world.replicas[0], KEY.run)
    assert (await step(world.replicas[0], "k1", 75)).step == 1


@virtual_time
async def test_in_strict_mode_a_repeated_request_waits_for_the_commit_of_its_step():
    world = await World(a_model=MODEL, settings=settings(durability="actor")).start()
    replica = world.replicas[0]
    await replica.batcher.submit(KEY, INPUT)
    world.network.latency_s = (0.05, 0.05)
    first = replica.batcher.submit(KEY, INPUT, request_id="k", fingerprint=str(INPUT))
    await asyncio.sleep(0.02)
    again = replica.batcher.submit(KEY, INPUT, request_id="k", fingerprint=str(INPUT))
    await asyncio.sleep(0.02)
    assert not again.done()
    assert await first == await again
