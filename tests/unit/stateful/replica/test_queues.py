"""Requests that wait for their step: their order, and what becomes of those that give up."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import Key, OutcomeUnknownError
from deployments.stateful.replica import batcher as module
from deployments.stateful.replica.queues import CommitDeadlines, Queues, Request, StepResult
from tests.unit.stateful.models import MODEL
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import World, gather

A, B, C = Key("run", "a"), Key("run", "b"), Key("run", "c")
DONE = StepResult((), 1)


def request(key: Key) -> Request:
    return Request(key, key.entity, 0, asyncio.get_running_loop().create_future(), 1.0)


class TestQueues:
    async def test_keys_take_turns_and_the_requests_of_one_keep_their_order(self):
        queues = Queues()
        asked = [request(key) for key in (A, A, B, C, A, B)]
        assert all(queues.add(each) for each in asked)
        order = []
        while queues.has_ready:
            order += [queues.pop(key) for key in queues.ready(2)]
        assert order == [asked[n] for n in (0, 2, 3, 1, 5, 4)]

    async def test_what_is_answered_is_passed_over(self):
        queues = Queues()
        asked = [request(A) for _ in range(4)]
        for each in asked:
            queues.add(each)
        for n in (0, 1, 3):
            asked[n].response.cancel()
        assert queues.pop(A) is asked[2]
        assert queues.pop(A) is None
        assert not queues.has_ready
        assert not queues._queues

    async def test_a_parked_key_is_not_ready_until_its_state_is_here_and_then_comes_first(self):
        queues = Queues()
        asked = [request(key) for key in (A, B, A)]
        queues.add(asked[0])
        queues.add(asked[1])
        assert queues.park(A) == [asked[0]]
        assert not queues.add(asked[2])
        assert queues.ready(10) == [B]
        queues.unpark(A)
        assert queues.ready(10) == [A, B]
        assert [queues.pop(A), queues.pop(A)] == [asked[0], asked[2]]

    async def test_requests_that_gave_up_while_they_were_parked_are_not_kept(self):
        queues = Queues()
        queues.add(request(A))
        queues.park(A)
        for _ in range(1000):
            queues._queues[A][-1].response.cancel()
            queues.add(request(A))
        assert len(queues._queues[A]) == 1

    async def test_dropped_requests_are_returned_and_forgotten(self):
        queues = Queues()
        asked = [request(A), request(A)]
        queues.add(asked[0])
        queues.park(A)
        queues.add(asked[1])
        assert queues.drop(A) == asked
        assert not queues._queues
        assert queues.add(request(A)), "it is ready again"


class TestHeldAnswers:
    @virtual_time
    async def test_each_fails_at_its_own_time_unless_it_is_answered(self):
        loop = asyncio.get_running_loop()
        held = CommitDeadlines(1.0)
        answers = []
        for _ in range(5):
            answers.append(loop.create_future())
            held.add(answers[-1])
            await asyncio.sleep(0.1)
        answers[1].set_result(DONE)
        answers[3].cancel()
        for n in (0, 2, 4):
            assert not answers[n].done()
            await asyncio.sleep(0.1 * n + 1.0 + 0.001 - loop.time())
            with pytest.raises(OutcomeUnknownError):
                answers[n].result()
        assert not held._waiting

    @virtual_time
    async def test_what_was_answered_long_ago_is_not_kept(self):
        held = CommitDeadlines(1.0)
        for _ in range(1000):
            answer = asyncio.get_running_loop().create_future()
            held.add(answer)
            answer.set_result(DONE)
        assert len(held._waiting) == 1


@virtual_time
async def test_ten_thousand_steps_of_one_junction_leave_the_loop_to_others(monkeypatch):
    """Each look at the clock counts as a millisecond, so no slow machine fails this."""

    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            self.now += 0.001
            return self.now

    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    key = Key("run", "a")
    await batcher.submit(key, 5)
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    answers = [batcher.submit(key, 5) for _ in range(10_000)]
    turns: list[float] = []
    others = 0
    while not answers[-1].done():
        before = clock.now
        await asyncio.sleep(0)
        turns.append(clock.now - before)
        others += 1
    assert max(turns) <= module.LONGEST_TURN_S + 0.004
    assert others > 1000
    assert [answer.result().step for answer in answers] == list(range(2, 10_002))


@virtual_time
async def test_a_crowd_on_one_junction_does_not_hold_up_another():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    crowded, quiet = Key("crowded", "a"), Key("quiet", "a")
    await gather(batcher.submit(crowded, 5), batcher.submit(quiet, 5))
    crowd = [batcher.submit(crowded, 5) for _ in range(5000)]
    await batcher.submit(quiet, 5)
    assert not crowd[1000].done()  # a turn of 4 ms has time for some hundred steps
    await gather(*crowd)
