"""The calls of each service as asynchronous methods."""

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
    """Performs a call, and returns its result when awaited."""

    def __call__(self, call: Call[Result], /) -> Coroutine[Any, Any, Result]: ...


class Group(Generic[Calls_co]):
    """The calls of one service, and the client that performs them."""

    def __init__(self, perform: Perform, calls: Calls_co) -> None:
        self._perform = perform
        self._calls = calls


def asynchronous(
    build: Callable[Concatenate[Calls, Arguments], Call[Result]],
) -> Callable[Concatenate[Group[Calls], Arguments], Coroutine[Any, Any, Result]]:
    """Make a method that builds a call and performs it."""

    def method(
        group: Group[Calls], /, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Coroutine[Any, Any, Result]:
        return group._perform(build(group._calls, *arguments, **named))

    return described(method, build, "Awaitable[{}]")


class Gateway(Group[GatewayCalls]):
    health = asynchronous(GatewayCalls.health)
    livez = asynchronous(GatewayCalls.livez)
    readyz = asynchronous(GatewayCalls.readyz)


class Run(Group[RunCalls]):
    """Decisions of the gateway for the junctions of one simulation run."""

    act = asynchronous(RunCalls.act)
    demo = asynchronous(RunCalls.demo)
    reset = asynchronous(RunCalls.reset)


class InferenceRun(Group[InferenceRunCalls]):
    """Predictions of the inference service itself for the junctions of one simulation run."""

    predict = asynchronous(InferenceRunCalls.predict)
    predict_many = asynchronous(InferenceRunCalls.predict_many)
    reset = asynchronous(InferenceRunCalls.reset)


class Inference(Group[InferenceCalls]):
    health = asynchronous(InferenceCalls.health)
    model_info = asynchronous(InferenceCalls.model_info)
    livez = asynchronous(InferenceCalls.livez)
    readyz = asynchronous(InferenceCalls.readyz)

    def run(self, name: str | None = None) -> InferenceRun:
        """Return the calls of the inference service for one simulation run."""
        return InferenceRun(
            self._perform, InferenceRunCalls(self._calls.url, name, self._calls.headers)
        )


class Density(Group[DensityCalls]):
    predict = asynchronous(DensityCalls.predict)
    health = asynchronous(DensityCalls.health)
    model_info = asynchronous(DensityCalls.model_info)
    livez = asynchronous(DensityCalls.livez)
    readyz = asynchronous(DensityCalls.readyz)


class Flow(Group[FlowCalls]):
    forecast = asynchronous(FlowCalls.forecast)
    health = asynchronous(FlowCalls.health)
    model_info = asynchronous(FlowCalls.model_info)
    livez = asynchronous(FlowCalls.livez)
    readyz = asynchronous(FlowCalls.readyz)


class Accounts(Group[AccountCalls]):
    create = asynchronous(AccountCalls.create)
    fetch = asynchronous(AccountCalls.fetch)
    update = asynchronous(AccountCalls.update)
    delete = asynchronous(AccountCalls.delete)
    say_hello = asynchronous(AccountCalls.say_hello)
    livez = asynchronous(AccountCalls.livez)
    readyz = asynchronous(AccountCalls.readyz)


class Loans(Group[LoanCalls]):
    create = asynchronous(LoanCalls.create)
    fetch = asynchronous(LoanCalls.fetch)
    update = asynchronous(LoanCalls.update)
    delete = asynchronous(LoanCalls.delete)
    say_hello = asynchronous(LoanCalls.say_hello)
    livez = asynchronous(LoanCalls.livez)
    readyz = asynchronous(LoanCalls.readyz)


class Cards(Group[CardCalls]):
    create = asynchronous(CardCalls.create)
    fetch = asynchronous(CardCalls.fetch)
    update = asynchronous(CardCalls.update)
    delete = asynchronous(CardCalls.delete)
    say_hello = asynchronous(CardCalls.say_hello)
    livez = asynchronous(CardCalls.livez)
    readyz = asynchronous(CardCalls.readyz)
