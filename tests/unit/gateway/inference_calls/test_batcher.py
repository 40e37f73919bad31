"""Steps that share calls, with calls that answer as the test says."""

import asyncio
import contextvars
from collections.abc import Sequence

import pytest

from deployments.batcher import MAX_BATCH
from deployments.gateway.inference_calls import batcher
from deployments.gateway.inference_calls.batcher import (
    MAX_CALLS,
    MAX_HOLD_S,
    CallBatcher,
    Decided,
    Outcome,
    Step,
)
from deployments.stateful.row import RECEIPTS

STEPS = [number % 4 for number in range(MAX_CALLS + 3)]
CLIENT = contextvars.ContextVar("CLIENT", default="nobody")


class Calls:
    """Answers each step with its first observation, when the gate is open."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = outcomes
        self.error: BaseException | None = None
        self.made: list[list[Step]] = []
        self.clients: list[str] = []  # in whose context each call was made
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, steps: Sequence[Step]) -> Sequence[Outcome]:
        self.made.append(list(steps))
        self.clients.append(CLIENT.get())
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.outcomes or [Decided(int(step.obs[0])) for step in steps]


def step(action: int, request_id: str | None = None, run: str = "run") -> Step:
    return Step(run, "300839359", [action], "key", request_id)


async def held_back(calls: Calls, shared: CallBatcher) -> list[asyncio.Future[Decided]]:
    """Send as many calls as may be on their way, and three steps that come later."""
    decisions = []
    for action in STEPS:
        decisions.append(shared.submit(step(action)))
        for _ in range(3):  # turns of the loop, until its call is made
            await asyncio.sleep(0)
    assert len(calls.made) == MAX_CALLS
    return decisions


async def test_many_steps_of_one_junction_are_divided_into_calls_that_it_can_remember():
    calls = Calls()
    shared = CallBatcher(calls)
    numbers = range(2 * MAX_BATCH + 1)
    decided = await asyncio.gather(*(shared.submit(step(n)) for n in numbers))
    assert decided == [*map(Decided, numbers)]
    assert [len(call) for call in calls.made] == [MAX_BATCH, MAX_BATCH, 1]
    assert MAX_BATCH <= RECEIPTS


async def test_a_step_whose_client_has_gone_is_left_out_and_spoils_no_other():
    calls = Calls()
    shared = CallBatcher(calls)
    gone, stays = shared.submit(step(1)), shared.submit(step(2))
    gone.cancel()
    assert await stays == Decided(2)
    assert calls.made == [[step(2)]]


@pytest.fixture
def patient(monkeypatch):
    """Keep steps together however slow the machine is."""
    monkeypatch.setattr(batcher, "MAX_HOLD_S", 60.0)


async def test_while_enough_calls_are_on_their_way_steps_gather_until_one_returns(patient):
    calls = Calls()
    calls.gate.clear()
    tasks = await held_back(calls, CallBatcher(calls))
    calls.gate.set()
    assert await asyncio.gather(*tasks) == [*map(Decided, STEPS)]
    assert [len(call) for call in calls.made] == [1] * MAX_CALLS + [3]


async def test_calls_that_hang_hold_up_the_others_for_milliseconds_alone():
    calls = Calls()
    calls.gate.clear()
    tasks = await held_back(calls, CallBatcher(calls))
    async with asyncio.timeout(100 * MAX_HOLD_S):  # the calls before still hang
        while len(calls.made) == MAX_CALLS:
            await asyncio.sleep(MAX_HOLD_S / 5)
    calls.gate.set()
    assert await asyncio.gather(*tasks) == [*map(Decided, STEPS)]


async def test_a_call_is_made_in_no_requests_context():
    calls = Calls()
    shared = CallBatcher(calls)
    CLIENT.set("ann")
    steps = [step(action, f"id-{action}") for action in (1, 2)]
    assert await asyncio.gather(*map(shared.submit, steps)) == [Decided(1), Decided(2)]
    assert calls.clients == ["nobody"]


async def test_closing_leaves_no_caller_waiting(patient):
    calls = Calls()
    calls.gate.clear()
    shared = CallBatcher(calls)
    tasks = await held_back(calls, shared)
    shared.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, BaseException) for outcome in outcomes)
