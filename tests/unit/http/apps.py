"""Applications with one fast route, driven as ASGI or served by uvicorn with the fast path."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from deployments.http.errors import render_error
from deployments.http.fast_path import fast_path_protocol
from deployments.http.fast_routes import FastRoutes
from deployments.http.messages import JSON_HEADERS, Answer

PATH = "/echo"


async def echo(scope: Scope, body: bytes) -> Answer:
    """Answer with the body."""
    return 200, body, JSON_HEADERS


def app_with(handle: Any = echo, method: str = "POST", **options: Any) -> FastAPI:
    app = FastAPI(redirect_slashes=False)
    options = {"max_body": 100, **options}
    of_all = ("whole_paths", "access_log", "guard")
    bounds = {name: options.pop(name) for name in of_all if name in options}
    routes = FastRoutes(app, render_error, options.pop("max_waiting", 2), **bounds)
    routes.add(method, PATH, handle, **options)

    @app.get("/status")
    async def status() -> str:
        return "ok"

    return app


def client_of(app: Any, root_path: str = "") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, root_path=root_path, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://test")


STEP = b"POST /api/echo HTTP/1.1\r\nhost: x\r\n"
HELLO = STEP + b"content-length: 5\r\n\r\nhello"


class RecordedStats:
    """What Serve is notified of.

    Attributes:
        at_work: requests now.
        ended: the route of each that has ended, and what ended it.
    """

    own_headers = frozenset([b"x-own"])

    def __init__(self, prefix: str = "/api") -> None:
        self.prefix = prefix
        self.at_work = 0
        self.ends: list[tuple[str, str | None]] = []

    def began(self) -> None:
        self.at_work += 1

    def ended(self, route: str, seconds: float, failure: str | None) -> None:
        self.at_work -= 1
        self.ends.append((route, failure))


class RunningServer:
    """A server with the fast path, which marks the answers of all other requests."""

    def __init__(self, port: int, stats: RecordedStats) -> None:
        self.port = port
        self.stats = stats
        self.url = f"http://127.0.0.1:{port}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def serving(app: FastAPI, prefix: str = "/api") -> AsyncIterator[RunningServer]:
    stats = RecordedStats(prefix)

    async def wrapper(scope: Scope, receive: Receive, send: Send) -> None:
        async def marking(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-wrapped", b"yes")]
            await send(message)

        await app({**scope, "root_path": stats.prefix}, receive, marking)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        protocol: Any = fast_path_protocol(app)(stats)
        config = uvicorn.Config(wrapper, http=protocol, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield RunningServer(listener.getsockname()[1], stats)
        finally:
            server.should_exit = True
            await asyncio.wait_for(task, 10)


async def answer_of(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes], bytes]:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    status, *lines = head.rstrip().split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    return status, headers, await reader.readexactly(int(headers[b"content-length"]))
