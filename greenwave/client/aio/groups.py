"""The calls of each service as methods whose results are awaited."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from greenwave.client.calls.forecasts import DensityCalls, FlowCalls
from greenwave.client.calls.gateway import GatewayCalls, RunCalls
from greenwave.client.calls.inference import InferenceCalls, InferenceRunCalls
from greenwave.client.calls.records import AccountCalls, CardCalls, LoanCalls
from greenwave.client.core.call import Call
from greenwave.client.core.methods import described

Calls = TypeVar("Calls")
Calls_co = TypeVar("Calls_co", covariant=True)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Perform(Protocol):
    """Performs a call."""

    def __call__(self, call: Call[Result], /) -> Coroutine[Any, Any, Result]: ...


class Group(Generic[Calls_co]):
    """Calls that belong together, and what performs them."""

    def __init__(self, perform: Perform, calls: Calls_co) -> None:
        self._perform = perform
        self._calls = calls


def awaiting(
    build: Callable[Concatenate[Calls, Arguments], Call[Result]],
) -> Callable[Concatenate[Group[Calls], Arguments], Coroutine[Any, Any, Result]]:
    """Make a method that builds a call and performs it."""

    def method(
        group: Group[Calls], /, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Coroutine[Any, Any, Result]:
        return group._perform(build(group._calls, *arguments, **named))

    return described(method, build, "Awaitable[{}]")


class Gateway(Group[GatewayCalls]):
    health = awaiting(GatewayCalls.health)
    livez = awaiting(GatewayCalls.livez)
    readyz = awaiting(GatewayCalls.readyz)


class Run(Group[RunCalls]):
    """Decisions for the junctions of one simulation run, by the gateway."""

    act = awaiting(RunCalls.act)
    demo = awaiting(RunCalls.demo)
    reset = awaiting(RunCalls.reset)


class InferenceRun(Group[InferenceRunCalls]):
    """Predictions for the junctions of one simulation run, by the inference service itself."""

    predict = awaiting(InferenceRunCalls.predict)
    predict_many = awaiting(InferenceRunCalls.predict_many)
    reset = awaiting(InferenceRunCalls.reset)


class Inference(Group[InferenceCalls]):
    health = awaiting(InferenceCalls.health)
    model_info = awaiting(InferenceCalls.model_info)
    livez = awaiting(InferenceCalls.livez)
    readyz = awaiting(InferenceCalls.readyz)

    def run(self, name: str | None = None) -> InferenceRun:
        """Return the predictions of a simulation run."""
        return InferenceRun(
            self._perform, InferenceRunCalls(self._calls.url, name, self._calls.headers)
        )


class Density(Group[DensityCalls]):
    predict = awaiting(DensityCalls.predict)
    health = awaiting(DensityCalls.health)
    model_info = awaiting(DensityCalls.model_info)
    livez = awaiting(DensityCalls.livez)
    readyz = awaiting(DensityCalls.readyz)


class Flow(Group[FlowCalls]):
    forecast = awaiting(FlowCalls.forecast)
    health = awaiting(FlowCalls.health)
    model_info = awaiting(FlowCalls.model_info)
    livez = awaiting(FlowCalls.livez)
    readyz = awaiting(FlowCalls.readyz)


class Accounts(Group[AccountCalls]):
    create = awaiting(AccountCalls.create)
    fetch = awaiting(AccountCalls.fetch)
    update = awaiting(AccountCalls.update)
    delete = awaiting(AccountCalls.delete)
    say_hello = awaiting(AccountCalls.say_hello)
    livez = awaiting(AccountCalls.livez)
    readyz = awaiting(AccountCalls.readyz)


class Loans(Group[LoanCalls]):
    create = awaiting(LoanCalls.create)
    fetch = awaiting(LoanCalls.fetch)
    update = awaiting(LoanCalls.update)
    delete = awaiting(LoanCalls.delete)
    say_hello = awaiting(LoanCalls.say_hello)
    livez = awaiting(LoanCalls.livez)
    readyz = awaiting(LoanCalls.readyz)


class Cards(Group[CardCalls]):
    create = awaiting(CardCalls.create)
    fetch = awaiting(CardCalls.fetch)
    update = awaiting(CardCalls.update)
    delete = awaiting(CardCalls.delete)
    say_hello = awaiting(CardCalls.say_hello)
    livez = awaiting(CardCalls.livez)
    readyz = awaiting(CardCalls.readyz)
