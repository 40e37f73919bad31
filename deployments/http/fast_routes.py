"""Fast routes: a table of routes in front of FastAPI, answered as plain ASGI.

FastAPI's work for each request (dependencies, response models, layers of middleware) costs several
times what the services do. So the routes that carry the load are in a table here, each with the
bounds of its requests. FastAPI has the OpenAPI document, in which each fast route is declared, and
answers the status routes, the documentation and unknown paths. One function renders all errors.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.http import shedding
from deployments.http.access_log import AccessLog
from deployments.http.docs import Takes, methods_of, placeholder
from deployments.http.errors import (
    BodyTooLargeError,
    BodyTooSlowError,
    OverloadedError,
    RefusedError,
)
from deployments.http.messages import Answer, Handle, Headers, RenderError, SendAnswer
from deployments.http.request import BodyReader, header, path_of
from deployments.http.shedding import AdaptiveLimit
from deployments.log import logger, request_headers
from deployments.request_times import CLIENT_GONE, OTHER_ROUTES, RequestTimes, RouteTimes
from deployments.trace_context import RAW_HEADER
from deployments.tracing import process as tracing

Check = Callable[[Scope], object]

OPEN_PATHS = frozenset({"/health"})  # for orchestrators, which have no token
ARRIVAL_HEADER = b"x-request-start"
"""When the edge received the request, in microseconds since the Unix epoch."""

_microseconds = re.compile("[0-9]{16}").fullmatch


class Route(NamedTuple):
    """A handler, and the bounds of its requests."""

    handle: Handle
    check: Check | None
    max_body: int | None
    counted: bool
    times: RouteTimes
    logged: bool


class FastRoutes:
    """ASGI middleware with a table of routes.

    It is ``app.state.fast_routes``, and the durations of all requests ``app.state.request_times``.

    Args:
        app: declares the routes, and answers all others.
        render_error: makes the response to any error, and logs a defect. The headers of an
            HTTPException are added here.
        max_waiting: counted requests at work at once, at most, by default MAX_AT_WORK; fewer while
            they wait too long for their turns. A request is at work once its body has arrived, so
            that slow senders take no place.
        access_log: notified of every response.
        guard: raises the refusal of a request, on every route that is not open.
        whole_paths: whether all paths are those of URLs, whatever the route prefix.
    """

    def __init__(
        self,
        app: FastAPI,
        render_error: RenderError,
        max_waiting: int | None = None,
        *,
        access_log: AccessLog | None = None,
        guard: Check | None = None,
        whole_paths: bool = False,
    ) -> None:
        self.whole_paths = whole_paths
        self._declared: FastAPI = app
        self._others: ASGIApp = app
        self._render_error = render_error
        self._limit = AdaptiveLimit(shedding.MAX_AT_WORK if max_waiting is None else max_waiting)
        self._access_log = access_log or AccessLog()
        self._guard = guard
        self._times: RequestTimes = RequestTimes()
        self._times_of_others = self._times.of(*OTHER_ROUTES)
        self._bodies = BodyReader()
        self._routes: dict[tuple[str, str], Route] = {}
        app.state.request_times = self._times
        app.state.fast_routes = self
        app.add_middleware(self._wrap)
        for error in (HTTPException, RefusedError, Exception):
            app.add_exception_handler(error, self._respond_to)

    def add(
        self,
        method: str,
        path: str,
        handle: Handle,
        *,
        check: Check | None = None,
        max_body: int | None = None,
        counted: bool = True,
        logged: bool = True,
        is_open: bool = False,
        takes: Takes | None = None,
        **declaration: Any,
    ) -> None:
        """Add a route to the table, and declare it in the OpenAPI document.

        Args:
            path: below the prefix of the application, unless paths are whole.
            handle: from the scope and the body to the answer. Its name and docstring are those of
                the operation.
            check: raises the refusal of a request before its body is read.
            max_body: bytes; None for a route that does not read the body.
            counted: whether its requests count as at work.
            logged: whether it appears in the access log and in traces.
            is_open: whether it needs no guard.
            takes: the parameters, for the document.
            declaration: further arguments of ``FastAPI.add_api_route``.
        """
        if self._guard is not None and not is_open:
            check = _both(self._guard, check)
        times = self._times.of(method, path)
        self._routes[method, path] = Route(handle, check, max_body, counted, times, logged)
        self._declared.add_api_route(
            path,
            placeholder(takes or {}),
            methods=[method],
            **{
                "name": handle.__name__,
                "description": inspect.getdoc(handle),
                **declaration,
            },
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request_headers.set(scope["headers"])
            if self.whole_paths:
                scope = {**scope, "root_path": ""}
            route = self.route_of(scope["method"], path_of(scope))
            if route is not None:
                await self.answer(route, scope, receive, _by_messages(send))
            else:
                await self._pass_on(scope, receive, send)
            return
        await self._others(scope, receive, send)

    def _wrap(self, others: ASGIApp) -> ASGIApp:
        self._others = others
        return self

    def route_of(self, method: str, path: str) -> Route | None:
        """Return the route of a request; None when it is not in the table.

        Args:
            path: as in :meth:`add`.
        """
        return self._routes.get((method, path))

    async def answer(
        self,
        route: Route,
        scope: Scope,
        receive: Receive,
        send: SendAnswer,
        body: bytes | None = None,
        arrived_s: float | None = None,
    ) -> None:
        """Answer a request.

        Args:
            receive: source of the body, unless it is given.
            body: of the request, if all of it has arrived.
            arrived_s: when its headers had arrived, by ``perf_counter``, if that is known; for load
                shedding.
        """
        if arrived_s is not None and route.counted:
            now_s = perf_counter()
            self._limit.note(now_s - arrived_s, self._times.at_work, now_s)
        traced = span_of(scope) if route.logged and tracing.is_on() else None
        if traced is None:
            await self._answer(route, scope, receive, send, body)
            return
        with traced as span:

            async def send_traced(status: int, body: bytes, headers: Headers) -> None:
                span.set_attribute("http.response.status_code", status)
                await send(status, body, headers)

            await self._answer(route, scope, receive, send_traced, body)

    async def _answer(
        self, route: Route, scope: Scope, receive: Receive, send: SendAnswer, sent: bytes | None
    ) -> None:
        handle, check, max_body, counted, times, logged = route
        at_work, status, began = 0, CLIENT_GONE, perf_counter()
        try:
            if counted and self._times.at_work >= self._limit.now:
                raise OverloadedError
            if check is not None:
                check(scope)
            if max_body is None:
                sent = b""
            elif sent is None:
                sent = await self._bodies.read(receive, max_body)
                if counted and self._times.at_work >= self._limit.now:
                    raise OverloadedError
            elif len(sent) > max_body:
                raise BodyTooLargeError(max_body)
            at_work = int(counted)
            self._times.at_work += at_work
            status, body, headers = await handle(scope, sent)
        except Exception as error:
            status, body, headers = self._refuse(scope, error)
        finally:
            self._times.at_work -= at_work
            seconds = perf_counter() - began
            times.observe(status, seconds)
        await send(status, body, headers)
        if logged:
            self._access_log.note(scope, sent or b"", status, seconds)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, began = CLIENT_GONE, perf_counter()

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        answer = self._others
        if self._guard is not None and path_of(scope) not in OPEN_PATHS:
            try:
                self._guard(scope)
            except RefusedError as refusal:
                answer = await self._respond_to(Request(scope), refusal)
        try:
            await answer(scope, receive, note)
        finally:
            seconds = perf_counter() - began
            self._times_of_others.observe(status, seconds)
            self._access_log.note(scope, b"", status, seconds)

    def _refuse(self, scope: Scope, error: Exception) -> Answer:
        if isinstance(error, OverloadedError | BodyTooSlowError):
            message = "Answered %d: %s; %d are at work"
            logger.warning(message, error.status, error, self._times.at_work)
        return self._render_error(scope, error)

    async def _respond_to(self, request: Request, error: Exception) -> Response:
        status, body, headers = self._refuse(request.scope, error)
        response = Response(body, status)
        response.raw_headers += headers
        if isinstance(error, HTTPException):
            response.headers.update(error.headers or {})
        if status == 405:  # Starlette names the methods of one route of the path alone
            response.headers["Allow"] = ", ".join(methods_of(self._declared, request.scope))
        return response


def span_of(scope: Scope) -> AbstractContextManager[Any] | None:
    """Return the span that covers a request; None when the request is not traced."""
    senders = tracing.sample(header(scope, RAW_HEADER))
    if senders is None:
        return None
    arrived = _microseconds(header(scope, ARRIVAL_HEADER) or "")
    name = f"{scope['method']} {scope['path']}"
    return tracing.of_request(name, senders, int(arrived[0]) / 1e6 if arrived else None)


def _both(first: Check, second: Check | None) -> Check:
    if second is None:
        return first

    def check(scope: Scope) -> None:
        first(scope)
        second(scope)

    return check


def _by_messages(send: Send) -> SendAnswer:
    async def send_answer(status: int, body: bytes, headers: Headers) -> None:
        raw = [*headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    return send_answer
