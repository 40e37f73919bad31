"""The calls of each service as methods, the same for both kinds of clients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from greenwave.client.batch import Batch
from greenwave.client.call import Call
from greenwave.client.errors import InvalidInputError
from greenwave.client.forecasts import DensityCalls, FlowCalls
from greenwave.client.gateway import GatewayCalls, RunCalls
from greenwave.client.inference import InferenceCalls, InferenceRunCalls
from greenwave.client.inputs import MAX_BATCH_ROWS
from greenwave.client.records import AccountCalls, CardCalls, LoanCalls
from greenwave.client.service import Probed


class Blocking:
    """The mode of a client whose methods return results."""

    returns = "{}"


class Asynchronous:
    """The mode of a client whose methods return awaitables of results."""

    returns = "Awaitable[{}]"


Mode = TypeVar("Mode", bound=Blocking | Asynchronous)
Calls = TypeVar("Calls")
Calls_co = TypeVar("Calls_co", covariant=True)
Probed_co = TypeVar("Probed_co", bound=Probed, covariant=True)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Perform(Protocol):
    """Performs a call, and returns its result or an awaitable of it, as the mode says."""

    def __call__(self, call: Call[Any], /) -> Any: ...


class Group(Generic[Mode, Calls_co]):
    """The calls of one service, and how a client performs them."""

    def __init__(self, mode: type[Mode], perform: Perform, calls: Calls_co) -> None:
        self._mode = mode
        self._perform = perform
        self._calls = calls


class Method(Generic[Calls, Arguments, Result]):
    """A method of a group that builds a call and performs it.

    ``help`` and editors show the signature and the docstring of the function that builds the call.
    """

    def __init__(self, build: Callable[Concatenate[Calls, Arguments], Call[Result]]) -> None:
        self._methods = {mode: _method(build, mode.returns) for mode in (Blocking, Asynchronous)}

    @overload
    def __get__(self, group: None, owner: object, /) -> Callable[..., Any]: ...

    @overload
    def __get__(
        self, group: Group[Blocking, Calls], owner: object, /
    ) -> Callable[Arguments, Result]: ...

    @overload
    def __get__(
        self, group: Group[Asynchronous, Calls], owner: object, /
    ) -> Callable[Arguments, Coroutine[Any, Any, Result]]: ...

    def __get__(self, group: Group[Any, Calls] | None, owner: object, /) -> Any:
        if group is None:
            return self._methods[Blocking]
        return MethodType(self._methods[group._mode], group)


def _method(build: Callable[..., Call[Any]], returns: str) -> Callable[..., Any]:
    def method(group: Group[Any, Any], /, *arguments: Any, **named: Any) -> Any:
        return group._perform(build(group._calls, *arguments, **named))

    signature = inspect.signature(build)
    result = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    described: Any = update_wrapper(method, build)
    described.__signature__ = signature.replace(return_annotation=returns.format(result))
    return method


class ProbedGroup(Group[Mode, Probed_co]):
    """A service that reports whether one replica of it is alive and ready."""

    livez = Method(Probed.livez)
    readyz = Method(Probed.readyz)


class Gateway(ProbedGroup[Mode, GatewayCalls]):
    health = Method(GatewayCalls.health)


class Run(Group[Mode, RunCalls]):
    """Decisions of the gateway for the junctions of one simulation run."""

    act = Method(RunCalls.act)
    demo = Method(RunCalls.demo)
    reset = Method(RunCalls.reset)


class InferenceRun(Group[Mode, InferenceRunCalls]):
    """Predictions of the inference service itself for the junctions of one simulation run."""

    predict = Method(InferenceRunCalls.predict)
    predict_many = Method(InferenceRunCalls.predict_many)
    reset = Method(InferenceRunCalls.reset)
    info = Method(InferenceRunCalls.info)
    end = Method(InferenceRunCalls.end)
    fork = Method(InferenceRunCalls.fork)
    export = Method(InferenceRunCalls.export)
    restore = Method(InferenceRunCalls.restore)


class Inference(ProbedGroup[Mode, InferenceCalls]):
    health = Method(InferenceCalls.health)
    model_info = Method(InferenceCalls.model_info)
    infer = Method(InferenceCalls.infer)
    runs = Method(InferenceCalls.runs)

    def run(self, name: str | None = None) -> InferenceRun[Mode]:
        """Return the calls of the inference service for one simulation run."""
        calls = InferenceRunCalls(self._calls.url, name, self._calls.headers)
        return InferenceRun(self._mode, self._perform, calls)

    def batch(
        self: Inference[Blocking], *, max_rows: int = MAX_BATCH_ROWS, max_waiting: int = 8192
    ) -> Batch:
        """Return an object that combines the steps of many simulators into few calls.

        Args:
            max_rows: rows in one call.
            max_waiting: rows that wait for a call; ``send`` waits while there are more.
        """
        if self._mode is not Blocking:
            raise InvalidInputError("An AsyncClient has no batch(): use a Client, or infer()")
        calls, perform = self._calls, self._perform
        return Batch(lambda *rows: perform(calls.step(*rows)), max_rows, max_waiting)


class Density(ProbedGroup[Mode, DensityCalls]):
    predict = Method(DensityCalls.predict)
    health = Method(DensityCalls.health)
    model_info = Method(DensityCalls.model_info)


class Flow(ProbedGroup[Mode, FlowCalls]):
    forecast = Method(FlowCalls.forecast)
    health = Method(FlowCalls.health)
    model_info = Method(FlowCalls.model_info)


class Accounts(ProbedGroup[Mode, AccountCalls]):
    create = Method(AccountCalls.create)
    fetch = Method(AccountCalls.fetch)
    update = Method(AccountCalls.update)
    delete = Method(AccountCalls.delete)
    say_hello = Method(AccountCalls.say_hello)


class Loans(ProbedGroup[Mode, LoanCalls]):
    create = Method(LoanCalls.create)
    fetch = Method(LoanCalls.fetch)
    update = Method(LoanCalls.update)
    delete = Method(LoanCalls.delete)
    say_hello = Method(LoanCalls.say_hello)


class Cards(ProbedGroup[Mode, CardCalls]):
    create = Method(CardCalls.create)
    fetch = Method(CardCalls.fetch)
    update = Method(CardCalls.update)
    delete = Method(CardCalls.delete)
    say_hello = Method(CardCalls.say_hello)
