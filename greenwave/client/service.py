"""What all services' calls share: how a call is described, and the methods that perform it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, get_type_hints, overload

from greenwave.client.call import Call, Effect, Reply
from greenwave.client.failures import failure_of
from greenwave.client.inputs import checked_key, json_bytes
from greenwave.client.results import Form, Probe


class Blocking:
    """The mode of a client whose methods return results."""


class Asynchronous:
    """The mode of a client whose methods return coroutines of results."""


Mode = TypeVar("Mode", bound=Blocking | Asynchronous)
AnyForm = TypeVar("AnyForm", bound=Form)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

Perform = Callable[[Call[Any]], Any]
"""Performs a call, and returns its result or a coroutine of it, as the mode says."""


class operation(Generic[Arguments, Result]):
    """Makes a function that describes a call a method that performs it, in the service's mode."""

    def __init__(self, describe: Callable[Concatenate[Any, Arguments], Call[Result]]) -> None:
        def method(service: Service[Any], /, *arguments: Any, **named: Any) -> Any:
            return service._perform(describe(service, *arguments, **named))

        (result,) = get_args(get_type_hints(describe)["return"])
        described: Any = update_wrapper(method, describe)
        described.__signature__ = inspect.signature(describe).replace(return_annotation=result)
        self._method = method

    @overload
    def __get__(self, service: None, owner: object, /) -> Callable[..., Any]: ...

    @overload
    def __get__(
        self, service: Service[Blocking], owner: object, /
    ) -> Callable[Arguments, Result]: ...

    @overload
    def __get__(
        self, service: Service[Asynchronous], owner: object, /
    ) -> Callable[Arguments, Coroutine[Any, Any, Result]]: ...

    def __get__(self, service: Service[Any] | None, owner: object, /) -> Any:
        return self._method if service is None else MethodType(self._method, service)


class Service(Generic[Mode]):
    """The calls of one service.

    Args:
        url: the address of the service, before its prefix.
        headers: of each request but the probes.
    """

    prefix = ""
    needs_login = False
    """Whether requests need the login at the gateway, unless their headers have a token."""

    def __init__(
        self, perform: Perform, url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._perform = perform
        self._url = url
        self._headers = headers or {}

    def _call(
        self,
        method: str,
        path: str,
        read: Callable[[Reply], Result],
        effect: Effect = Effect.NONE,
        *,
        key: str | None = None,
        json: object = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        answers: tuple[int, ...] = (200,),
    ) -> Call[Result]:
        """Describe a call.

        Args:
            key: of an idempotent call that users may repeat; others get a new one.
            json, data: the body.
        """
        sent = {**self._headers, **(headers or {})}
        if effect is Effect.IDEMPOTENT:
            sent["idempotency-key"] = checked_key(key)
        if json is not None:
            data = json_bytes(json)
            sent["content-type"] = "application/json"
        elif data is not None:
            sent["content-type"] = "application/octet-stream"
        return Call(
            method=method,
            url=f"{self._url}{self.prefix}{path}",
            read=read,
            effect=effect,
            answers=answers,
            headers=sent,
            body=data,
            authorized=self.needs_login and "authorization" not in sent,
            key=key,
        )

    def _get(self, path: str, form: type[AnyForm]) -> Call[AnyForm]:
        return self._call("GET", path, reading(form))


class ProbedService(Service[Mode]):
    """A service that reports whether one replica of it is alive and ready."""

    @operation
    def livez(self) -> Call[Probe]:
        """Return whether the replica that answers is alive; trouble is a result, not an error."""
        return self._status("/livez", Probe)

    @operation
    def readyz(self) -> Call[Probe]:
        """Return whether the replica that answers has all that its work needs."""
        return self._status("/readyz", Probe)

    def _status(self, path: str, form: type[AnyForm]) -> Call[AnyForm]:
        """Describe a call without credentials, whose result may come with the status 503."""
        return Call(
            method="GET",
            url=f"{self._url}{self.prefix}{path}",
            read=partial(_read_status, form),
            answers=(200, 503),
        )


def reading(form: type[AnyForm]) -> Callable[[Reply], AnyForm]:
    """Return the reader of answers of this form."""
    return lambda reply: form.model_validate_json(reply.body)


def nothing(_: Reply) -> None:
    """Read an answer without a result."""


def _read_status(form: type[AnyForm], reply: Reply) -> AnyForm:
    try:
        return form.model_validate_json(reply.body)
    except ValueError:
        if reply.status == 200:
            raise
        raise failure_of(reply).error from None
