"""Calls through a Serve handle, with a stand-in for the handle."""

from __future__ import annotations

import asyncio

import pytest

from deployments.gateway.errors import BadRequestError, KeyReusedError
from deployments.gateway.inference_calls.client import InferenceUnavailableError, Step
from deployments.gateway.inference_calls.handle_transport import HandleTransport

DEADLINE_S = 0.05


class BackPressureError(Exception):
    """Named as Serve's own."""


class FakeHandle:
    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[list[tuple[str | None, str, list[float], str]]] = []
        self.error: Exception | None = None
        self.hang = False
        self.cancelled = 0

    async def act(self, steps):
        self.calls.append(steps)
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
    return Step(run, "300839359", [action], f"key-{action}")


async def test_steps_that_arrive_together_go_as_plain_tuples_in_one_call():
    handle = FakeHandle()
    transport = transport_of(handle)
    answers = await asyncio.gather(*(transport.act(step(n, "run-7")) for n in range(4)))
    assert answers == [0, 1, 2, 3]
    assert handle.calls == [[("run-7", "300839359", [n], f"key-{n}") for n in range(4)]]


async def test_a_refused_step_spoils_no_other():
    transport = transport_of(
        FakeHandle(
            ("error", 422, "so large"),
            (1, 0.5),
            ("error", 503, "Model not loaded", "model_not_loaded"),
            ("error", 503, "x", "overloaded"),
            ("error", 500, "x"),
            ("error", 404, "x"),
            (4, 0.5),
            ("1", 0.5),
            ("error", 503, "x", "outcome_unknown"),
            ("error", 422, "other observations", "key_reused"),
        )
    )
    outcomes = await asyncio.gather(
        *(transport.act(step(0)) for _ in range(10)), return_exceptions=True
    )
    assert isinstance(outcomes[0], BadRequestError)
    assert str(outcomes[0]) == "so large"
    assert outcomes[1] == 1
    causes = [each.cause for each in outcomes[2:] if isinstance(each, InferenceUnavailableError)]
    assert causes == [
        "not_loaded",
        "overloaded",
        "failing",
        *["unusable"] * 3,
        "outcome_unknown",
    ]
    assert isinstance(outcomes[9], KeyReusedError)


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


async def test_a_reset_names_its_error():
    with pytest.raises(InferenceUnavailableError, match="overloaded"):
        await transport_of(FakeHandle(("error", 503, "not in time"))).reset("run", None)
