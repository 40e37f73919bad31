"""Requests that wait for their steps, and responses that wait for commits."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import Key, OutcomeUnknownError
from deployments.stateful.replica.queues import CommitDeadlines, Queues, Request, StepResult
from tests.unit.stateful.authorities import now
from tests.unit.stateful.simulation.scenario import simulated

A, B, C = Key("run", "a"), Key("run", "b"), Key("run", "c")


def request(key: Key) -> Request:
    return Request(key, key.entity, 0, asyncio.get_running_loop().create_future(), 1.0)


async def test_keys_take_turns_and_the_requests_of_one_keep_their_order():
    queues = Queues()
    requests = [request(key) for key in (A, A, B, C, A, B)]
    assert all(queues.add(each) for each in requests)
    order = []
    while queues.has_ready:
        order += [queues.pop(key) for key in queues.ready(2)]
    assert order == [requests[n] for n in (0, 2, 3, 1, 5, 4)]
    assert not queues.has_any


async def test_requests_that_were_answered_are_passed_over():
    queues = Queues()
    requests = [request(A) for _ in range(4)]
    for each in requests:
        queues.add(each)
    for n in (0, 1, 3):
        requests[n].response.set_exception(ConnectionAbortedError())
    assert queues.pop(A) is requests[2]
    assert queues.pop(A) is None
    assert not queues.has_ready
    assert not queues.has_any


async def test_a_parked_key_is_not_ready_until_its_state_arrives_and_is_first_then():
    queues = Queues()
    requests = [request(key) for key in (A, B, A)]
    queues.add(requests[0])
    queues.add(requests[1])
    assert queues.park(A) == [requests[0]]
    assert queues.is_parked(A)
    assert not queues.add(requests[2])
    assert queues.ready(10) == [B]
    queues.unpark(A)
    assert not queues.is_parked(A)
    assert queues.ready(10) == [A, B]
    assert [queues.pop(A), queues.pop(A)] == [requests[0], requests[2]]


async def test_parked_requests_that_gave_up_are_not_kept():
    queues = Queues()
    queues.add(request(A))
    queues.park(A)
    for _ in range(100):
        queues._queues[A][-1].response.set_exception(ConnectionAbortedError())
        queues.add(request(A))
    assert len(queues._queues[A]) == 1


async def test_dropped_requests_are_returned_and_forgotten():
    queues = Queues()
    requests = [request(A), request(A)]
    queues.add(requests[0])
    queues.park(A)
    queues.add(requests[1])
    assert queues.drop(A) == requests
    assert not queues.has_any
    assert queues.add(request(A)), "it is ready again"


@simulated
async def test_each_response_fails_at_its_own_time_unless_it_is_sent():
    deadlines, responses = CommitDeadlines(1.0), []
    for _ in range(5):
        responses.append(asyncio.get_running_loop().create_future())
        deadlines.add(responses[-1])
        await asyncio.sleep(0.1)
    responses[1].set_result(StepResult((), 1))
    responses[3].cancel()
    for n in (0, 2, 4):
        assert not responses[n].done()
        await asyncio.sleep(0.1 * n + 1.0 + 0.001 - now())
        with pytest.raises(OutcomeUnknownError):
            responses[n].result()
    assert not deadlines._waiting


@simulated
async def test_responses_that_were_sent_are_not_kept():
    deadlines = CommitDeadlines(1.0)
    for _ in range(100):
        response = asyncio.get_running_loop().create_future()
        deadlines.add(response)
        response.set_result(StepResult((), 1))
    assert len(deadlines._waiting) == 1
