import asyncio

from deployments.batcher import MAX_BATCH, Batcher, settle


class Doubler(Batcher[int, int]):
    """Doubles numbers, and keeps what ran together."""

    def __init__(self) -> None:
        super().__init__(self._double)
        self.batches: list[list[int]] = []

    def _double(self, batch):
        self.batches.append([item for item, _ in batch])
        settle(batch, [2 * item if item else ValueError("nothing") for item, _ in batch])


async def test_what_waits_in_one_turn_runs_together_and_in_order():
    batcher = Doubler()
    assert await asyncio.gather(*map(batcher.submit, range(1, 6))) == [2, 4, 6, 8, 10]
    assert batcher.batches == [[1, 2, 3, 4, 5]]


async def test_one_alone_does_not_wait_for_others():
    batcher = Doubler()
    assert (await batcher.submit(1), await batcher.submit(2)) == (2, 4)
    assert batcher.batches == [[1], [2]]


async def test_a_batch_is_bounded():
    batcher = Doubler()
    await asyncio.gather(*map(batcher.submit, range(1, 2 * MAX_BATCH + 2)))
    assert [len(batch) for batch in batcher.batches] == [MAX_BATCH, MAX_BATCH, 1]


async def test_a_cancelled_request_is_left_out_and_spoils_no_other():
    batcher = Doubler()
    gone, stays = batcher.submit(1), batcher.submit(2)
    gone.cancel()
    assert await stays == 4
    assert batcher.batches == [[2]]


async def test_an_error_is_the_outcome_of_its_item_alone():
    batcher = Doubler()
    answers = await asyncio.gather(*map(batcher.submit, (0, 1)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError, int]
