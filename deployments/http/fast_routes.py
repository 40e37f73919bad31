"""Routes that are answered as plain ASGI, in front of FastAPI.

What FastAPI does for each request (dependencies, response models, layers of middleware) costs
several times what the services do. So the routes that carry the load stand in a table here, each
with the bounds of its requests, and one function renders all errors of a service. FastAPI keeps the
OpenAPI document, for which a route is declared where it enters the table, and answers the status
routes, the pages of the documentation, and what has no route.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.http.errors import BodyTooSlowError, OverloadedError
from deployments.http.request import Bodies
from deployments.log import Seldom

Headers = Sequence[tuple[bytes, bytes]]
Answer = tuple[int, bytes, Headers]
"""Status, body, and headers without the body's length."""

Handle = Callable[[Scope, bytes], Awaitable[Answer]]
RenderError = Callable[[Scope, Exception], Answer]
Takes = Mapping[str, tuple[Any, Any]]
"""Type and default of each parameter, ``...`` for none, as in pydantic's ``create_model``."""

JSON = (b"content-type", b"application/json")
JSON_HEADERS: Headers = (JSON,)


class _Route(NamedTuple):
    handle: Handle
    check: Callable[[Scope], object] | None
    max_body: int | None
    counted: bool


class FastRoutes:
    """ASGI middleware with a table of routes, and what renders every error of the app.

    Args:
        app: declares the routes, and answers all others.
        render_error: makes the answer to any error: a refusal, a defect, which it also logs, or an
            HTTPException, whose own headers are added here.
        max_waiting: counted requests at work at once; one more is refused, so that no queue grows.
            A request is at work from when its body is there: who sends slowly takes nobody's place.
        counts_others: whether requests of other routes count as well.
    """

    def __init__(
        self,
        app: FastAPI,
        render_error: RenderError,
        max_waiting: float = math.inf,
        *,
        counts_others: bool = False,
    ) -> None:
        self._declared: FastAPI = app
        self._others: ASGIApp = app
        self._render_error = render_error
        self._max_waiting = max_waiting
        self._counts_others = counts_others
        self._waiting = 0
        self._bodies = Bodies()
        self._log = Seldom("Refusals for load")
        self._routes: dict[tuple[str, str], _Route] = {}
        app.add_middleware(self._stand_before)
        app.add_exception_handler(HTTPException, self._respond_to)
        app.add_exception_handler(Exception, self._respond_to)

    def add(
        self,
        method: str,
        path: str,
        handle: Handle,
        *,
        check: Callable[[Scope], object] | None = None,
        max_body: int | None = None,
        counted: bool = True,
        takes: Takes | None = None,
        **declaration: Any,
    ) -> None:
        """Answer a route, and declare it in the OpenAPI document.

        Args:
            path: below the prefix of the application.
            handle: from the scope and the body to the answer. Its name and its docstring are those
                of the operation.
            check: raises what a request can be refused for before its body is read.
            max_body: bytes; None for a route that does not read the body.
            takes: the parameters, for the document.
            declaration: further arguments of ``FastAPI.add_api_route``.
        """
        route = self._routes[method, path] = _Route(handle, check, max_body, counted)
        self._declared.add_api_route(
            path,
            _placeholder(takes or {}),
            methods=[method],
            **{
                "name": handle.__name__,
                "description": inspect.getdoc(handle),
                **declaration,
            },
        )
        declared = self._declared.routes[-1]
        assert isinstance(declared, APIRoute)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            await self._answer(route, scope, receive, send)

        declared.app = answer  # there is no second way to answer, should a request come so far

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            route = self._routes.get((scope["method"], path))
            if route is not None:
                await self._answer(route, scope, receive, send)
                return
            if self._counts_others:
                await self._pass_on_counted(scope, receive, send)
                return
        await self._others(scope, receive, send)

    def _stand_before(self, others: ASGIApp) -> ASGIApp:
        self._others = others
        return self

    async def _answer(self, route: _Route, scope: Scope, receive: Receive, send: Send) -> None:
        handle, check, max_body, counted = route
        at_work, sent = 0, b""
        try:
            if counted and self._waiting >= self._max_waiting:
                raise OverloadedError
            if check is not None:
                check(scope)
            if max_body is not None:
                sent = await self._bodies.read(receive, max_body)
                if counted and self._waiting >= self._max_waiting:
                    raise OverloadedError
            at_work = int(counted)
            self._waiting += at_work
            status, body, headers = await handle(scope, sent)
        except Exception as error:
            status, body, headers = self._refuse(scope, error)
        finally:
            self._waiting -= at_work
        raw = [*headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    async def _pass_on_counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._waiting >= self._max_waiting:
            response = await self._respond_to(Request(scope), OverloadedError())
            await response(scope, receive, send)
            return
        self._waiting += 1
        try:
            await self._others(scope, receive, send)
        finally:
            self._waiting -= 1

    def _refuse(self, scope: Scope, error: Exception) -> Answer:
        if isinstance(error, OverloadedError | BodyTooSlowError):
            message = "Answered %d: %s; %d are at work"
            self._log.warning(str(error), message, error.status, error, self._waiting)
        return self._render_error(scope, error)

    async def _respond_to(self, request: Request, error: Exception) -> Response:
        status, body, headers = self._refuse(request.scope, error)
        response = Response(body, status)
        response.raw_headers += headers
        if isinstance(error, HTTPException):
            response.headers.update(error.headers or {})
        if status == 405:  # Starlette names the methods of one route of the path alone
            response.headers["Allow"] = ", ".join(_methods_of(self._declared, request.scope))
        return response


def _placeholder(takes: Takes) -> Callable[..., None]:
    """Make what FastAPI reads the parameters of an operation from; it is never called."""

    def operation() -> None: ...

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=annotation,
            default=inspect.Parameter.empty if default is ... else default,
        )
        for name, (annotation, default) in takes.items()
    ]
    operation.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return operation


def _methods_of(app: FastAPI, scope: Scope) -> list[str]:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    routes = [route for route in app.routes if isinstance(route, StarletteRoute)]
    methods = {method for route in routes if route.path == path for method in route.methods or ()}
    return sorted(methods or {"GET", "HEAD"})  # the files of the docs page are no routes
