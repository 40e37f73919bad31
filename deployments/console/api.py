"""Routes of the console, and its page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.console.service import ConsoleService
from deployments.console.stream import write_events
from deployments.http.docs import page_headers
from deployments.http.errors import render_error
from deployments.http.fast_routes import FastRoutes
from deployments.http.messages import NOT_A_RUN_ID, is_name
from deployments.http.probes import Probes

_STATIC = Path(__file__).with_name("static")
_HEADERS = page_headers()


def create_app(service: ConsoleService, probes: Probes | None = None) -> FastAPI:
    """Build the ASGI application around a service."""
    app = FastAPI(title="Live console", openapi_url=None)
    (probes or Probes(checks=service.checks)).add_to(FastRoutes(app, render_error))
    app.add_middleware(_SecurityHeaders)
    road_map = asdict(service.road_map)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.get("/map")
    async def network() -> dict[str, Any]:
        return road_map

    @app.get("/stream")
    async def stream(request: Request, run: str | None = None) -> Response:
        authenticate = partial(service.authenticate, request.scope)
        authenticate()
        if run and not is_name(run):
            raise HTTPException(400, NOT_A_RUN_ID)
        return _Stream(service, run or None, authenticate)

    @app.get("/what_if")
    async def what_if(
        request: Request, response: Response, run: str, junction: str, lane: int, step: int = 0
    ) -> dict[str, Any]:
        service.authenticate(request.scope)
        response.headers["cache-control"] = "no-store"
        return await service.what_if(run, junction, lane, step)

    app.mount("/", StaticFiles(directory=_STATIC, html=True))
    return app


class _Stream(Response):
    """The event stream of one open console."""

    def __init__(
        self, service: ConsoleService, run: str | None, authenticate: Callable[[], None]
    ) -> None:
        super().__init__()
        self._service = service
        self._run = run
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._service.audience.member(self._run) as client:

            async def following() -> bytes:
                event = await self._service.next_event(client)
                self._authenticate()  # the token may have been revoked
                return event

            await write_events(receive, send, following)


class _SecurityHeaders:
    """Adds the headers that restrict a browser to the files of this page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        prefix = scope.get("root_path", "")
        if scope["type"] == "http" and scope["path"] == prefix:  # its files are below
            app: ASGIApp = RedirectResponse(prefix.rpartition("/")[2] + "/")
            await app(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)
