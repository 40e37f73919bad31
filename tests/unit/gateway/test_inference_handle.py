"""Calls through a Serve handle, with a stand-in for the handle."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from deployments.gateway.errors import BadRequestError
from deployments.gateway.inference_client import InferenceUnavailableError, Step
from deployments.gateway.inference_handle import MAX_CALLS, HandleTransport

DEADLINE_S = 0.05
STEPS = [number % 4 for number in range(MAX_CALLS + 3)]


class BackPressureError(Exception):
    """Named as Serve's own."""


CLIENT = contextvars.ContextVar("CLIENT", default="nobody")


class FakeHandle:
    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[list[tuple[str | None, str, list[float]]]] = []
        self.clients: list[str] = []  # in whose context each call was made
        self.error: Exception | None = None
        self.hang = False
        self.cancelled = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def act(self, steps):
        self.calls.append(steps)
        self.clients.append(CLIENT.get())
        await self.gate.wait()
        await self._trouble()
        return self.outcomes or [(step[2][0], 0.5) for step in steps]

    async def reset_run(self, run):
        await self._trouble()
        return self.outcomes[0] if self.outcomes else "reset"

    async def health_status(self):
        await self._trouble()
        return "healthy"

    async def _trouble(self) -> None:
        if self.error:
            raise self.error
        if self.hang:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise


def transport_of(handle: FakeHandle) -> HandleTransport:
    async def resolve() -> FakeHandle:
        return handle

    return HandleTransport(resolve, DEADLINE_S)


def step(action: int, run: str | None = None) -> Step:
    return Step(run, "300839359", [action])


async def test_steps_that_arrive_together_share_a_call_and_keep_their_answers():
    handle = FakeHandle()
    transport = transport_of(handle)
    answers = await asyncio.gather(*(transport.act(step(n, f"run-{n}")) for n in range(4)))
    assert answers == [0, 1, 2, 3]
    assert handle.calls == [[(f"run-{n}", "300839359", [n]) for n in range(4)]]


async def test_steps_that_arrive_apart_do_not_wait_for_each_other():
    handle = FakeHandle()
    transport = transport_of(handle)
    assert [await transport.act(step(n)) for n in range(2)] == [0, 1]
    assert len(handle.calls) == 2


async def held_back(handle: FakeHandle, transport: HandleTransport) -> list[asyncio.Task[int]]:
    """As many calls on their way as there may be, and three steps that came later."""
    tasks = []
    for action in STEPS:
        tasks.append(asyncio.create_task(transport.act(step(action))))
        for _ in range(3):  # turns of the loop, until its call is made
            await asyncio.sleep(0)
    assert len(handle.calls) == MAX_CALLS
    return tasks


async def test_while_enough_calls_are_on_their_way_steps_gather_until_one_returns():
    handle = FakeHandle()
    handle.gate.clear()
    tasks = await held_back(handle, transport_of(handle))
    handle.gate.set()
    assert await asyncio.gather(*tasks) == STEPS
    assert [len(call) for call in handle.calls] == [1] * MAX_CALLS + [3]


async def test_calls_that_hang_hold_up_the_others_for_milliseconds_alone():
    handle = FakeHandle()
    handle.gate.clear()
    tasks = await held_back(handle, transport_of(handle))
    async with asyncio.timeout(DEADLINE_S * 0.9):  # the calls before still hang
        while len(handle.calls) == MAX_CALLS:
            await asyncio.sleep(0.001)
    handle.gate.set()
    assert await asyncio.gather(*tasks) == STEPS


async def test_a_call_is_made_in_no_requests_context_and_bears_the_first_ones_id():
    ids: list[str | None] = []

    def context_of(request_id: str | None) -> contextvars.Context:
        ids.append(request_id)
        return contextvars.Context()

    async def resolve() -> FakeHandle:
        return handle

    handle = FakeHandle()
    transport = HandleTransport(resolve, DEADLINE_S, context_of)
    CLIENT.set("ann")
    steps = [Step(None, "300839359", [action], f"id-{action}") for action in (1, 2)]
    assert await asyncio.gather(*map(transport.act, steps)) == [1, 2]
    assert handle.clients == ["nobody"]
    assert ids == ["id-1"]


async def test_closing_leaves_no_caller_waiting():
    handle = FakeHandle()
    handle.gate.clear()
    transport = transport_of(handle)
    tasks = await held_back(handle, transport)
    await transport.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, BaseException) for outcome in outcomes)


async def test_a_refused_step_spoils_no_other():
    transport = transport_of(
        FakeHandle(
            ("error", 422, "so large"),
            (1, 0.5),
            ("error", 503, "Model not loaded"),
            ("error", 503, "x"),
            ("error", 500, "x"),
            ("error", 404, "x"),
            (4, 0.5),
            ("1", 0.5),
        )
    )
    outcomes = await asyncio.gather(
        *(transport.act(step(0)) for _ in range(8)), return_exceptions=True
    )
    assert isinstance(outcomes[0], BadRequestError)
    assert str(outcomes[0]) == "so large"
    assert outcomes[1] == 1
    causes = [each.cause for each in outcomes[2:] if isinstance(each, InferenceUnavailableError)]
    assert causes == ["not_loaded", "overloaded", "failing", "unusable", "unusable", "unusable"]


@pytest.mark.parametrize("call", ["act", "reset", "health"])
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError("the actor died"), "unreachable"),
        (BackPressureError("full"), "overloaded"),
        (TimeoutError(), "too_slow"),
    ],
)
async def test_errors_of_the_handle_are_told_apart(call, error, cause):
    handle = FakeHandle()
    handle.error = error
    transport = transport_of(handle)
    calls = {
        "act": lambda: transport.act(step(0)),
        "reset": lambda: transport.reset(None, None),
        "health": transport.health,
    }
    with pytest.raises(InferenceUnavailableError) as failure:
        await calls[call]()
    assert failure.value.cause == cause


async def test_a_hanging_call_is_given_up_at_the_deadline():
    handle = FakeHandle()
    handle.hang = True
    with pytest.raises(InferenceUnavailableError, match="too_slow"):
        await transport_of(handle).act(step(0))
    assert handle.cancelled == 1


async def test_finding_the_handle_counts_towards_the_deadline():
    async def never() -> FakeHandle:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(InferenceUnavailableError, match="too_slow"):
        await HandleTransport(never, DEADLINE_S).act(step(0))


async def test_an_application_that_starts_later_is_found_then():
    found: list[FakeHandle] = []

    async def resolve() -> FakeHandle:
        return found[0]  # IndexError: not yet

    transport = HandleTransport(resolve, DEADLINE_S)
    with pytest.raises(InferenceUnavailableError, match="unreachable"):
        await transport.health()
    found.append(FakeHandle())
    assert await transport.health() == "healthy"


async def test_a_caller_that_has_gone_disturbs_no_other():
    transport = transport_of(FakeHandle())
    gone = asyncio.create_task(transport.act(step(1)))
    stays = asyncio.create_task(transport.act(step(2)))
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == 2


async def test_a_reset_names_its_error():
    with pytest.raises(InferenceUnavailableError, match="overloaded"):
        await transport_of(FakeHandle(("error", 503, "not in time"))).reset("run", None)
