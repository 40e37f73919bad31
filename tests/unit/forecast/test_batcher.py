from __future__ import annotations

import asyncio

from deployments.forecast.batcher import MAX_BATCH, Batcher


class Doubler:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        return [2 * item for item in items]


async def test_what_waits_in_one_turn_runs_together_and_in_order():
    run = Doubler()
    batcher = Batcher(run)
    assert await asyncio.gather(*map(batcher.submit, range(5))) == [0, 2, 4, 6, 8]
    assert run.batches == [[0, 1, 2, 3, 4]]


async def test_one_alone_does_not_wait_for_others():
    run = Doubler()
    batcher = Batcher(run)
    assert await batcher.submit(1) == 2
    assert await batcher.submit(2) == 4
    assert run.batches == [[1], [2]]


async def test_a_batch_is_bounded():
    run = Doubler()
    batcher = Batcher(run)
    await asyncio.gather(*map(batcher.submit, range(2 * MAX_BATCH + 1)))
    assert [len(batch) for batch in run.batches] == [MAX_BATCH, MAX_BATCH, 1]


async def test_a_cancelled_request_is_left_out_and_spoils_no_other():
    run = Doubler()
    batcher = Batcher(run)
    gone, stays = batcher.submit(1), batcher.submit(2)
    gone.cancel()
    assert await stays == 4
    assert run.batches == [[2]]


async def test_a_failing_batch_answers_everyone_and_the_next_one_works():
    broken = True

    def run(items):
        if broken:
            raise ValueError("no such luck")
        return items

    batcher = Batcher(run)
    answers = await asyncio.gather(batcher.submit(1), batcher.submit(2), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError] * 2
    broken = False
    assert await batcher.submit(3) == 3
