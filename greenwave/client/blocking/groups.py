"""The calls of each service as blocking methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

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
    """Performs a call, and returns its result."""

    def __call__(self, call: Call[Result], /) -> Result: ...


class Group(Generic[Calls_co]):
    """The calls of one service, and the client that performs them."""

    def __init__(self, perform: Perform, calls: Calls_co) -> None:
        self._perform = perform
        self._calls = calls


def blocking(
    build: Callable[Concatenate[Calls, Arguments], Call[Result]],
) -> Callable[Concatenate[Group[Calls], Arguments], Result]:
    """Make a method that builds a call and performs it."""

    def method(
        group: Group[Calls], /, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        return group._perform(build(group._calls, *arguments, **named))

    return described(method, build, "{}")


class Gateway(Group[GatewayCalls]):
    health = blocking(GatewayCalls.health)
    livez = blocking(GatewayCalls.livez)
    readyz = blocking(GatewayCalls.readyz)


class Run(Group[RunCalls]):
    """Decisions of the gateway for the junctions of one simulation run."""

    act = blocking(RunCalls.act)
    demo = blocking(RunCalls.demo)
    reset = blocking(RunCalls.reset)


class InferenceRun(Group[InferenceRunCalls]):
    """Predictions of the inference service itself for the junctions of one simulation run."""

    predict = blocking(InferenceRunCalls.predict)
    predict_many = blocking(InferenceRunCalls.predict_many)
    reset = blocking(InferenceRunCalls.reset)


class Inference(Group[InferenceCalls]):
    health = blocking(InferenceCalls.health)
    model_info = blocking(InferenceCalls.model_info)
    livez = blocking(InferenceCalls.livez)
    readyz = blocking(InferenceCalls.readyz)

    def run(self, name: str | None = None) -> InferenceRun:
        """Return the calls of the inference service for one simulation run."""
        return InferenceRun(
            self._perform, InferenceRunCalls(self._calls.url, name, self._calls.headers)
        )


class Density(Group[DensityCalls]):
    predict = blocking(DensityCalls.predict)
    health = blocking(DensityCalls.health)
    model_info = blocking(DensityCalls.model_info)
    livez = blocking(DensityCalls.livez)
    readyz = blocking(DensityCalls.readyz)


class Flow(Group[FlowCalls]):
    forecast = blocking(FlowCalls.forecast)
    health = blocking(FlowCalls.health)
    model_info = blocking(FlowCalls.model_info)
    livez = blocking(FlowCalls.livez)
    readyz = blocking(FlowCalls.readyz)


class Accounts(Group[AccountCalls]):
    create = blocking(AccountCalls.create)
    fetch = blocking(AccountCalls.fetch)
    update = blocking(AccountCalls.update)
    delete = blocking(AccountCalls.delete)
    say_hello = blocking(AccountCalls.say_hello)
    livez = blocking(AccountCalls.livez)
    readyz = blocking(AccountCalls.readyz)


class Loans(Group[LoanCalls]):
    create = blocking(LoanCalls.create)
    fetch = blocking(LoanCalls.fetch)
    update = blocking(LoanCalls.update)
    delete = blocking(LoanCalls.delete)
    say_hello = blocking(LoanCalls.say_hello)
    livez = blocking(LoanCalls.livez)
    readyz = blocking(LoanCalls.readyz)


class Cards(Group[CardCalls]):
    create = blocking(CardCalls.create)
    fetch = blocking(CardCalls.fetch)
    update = blocking(CardCalls.update)
    delete = blocking(CardCalls.delete)
    say_hello = blocking(CardCalls.say_hello)
    livez = blocking(CardCalls.livez)
    readyz = blocking(CardCalls.readyz)
