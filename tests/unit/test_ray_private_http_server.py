"""Serve's HTTP server speaks by a protocol of ours only where nothing is lost by it."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from ray.serve._private import replica as serve_replica

from deployments.ray_private import http_server
from deployments.ray_private.http_server import (
    ACCEPTED_AT_ONCE,
    ReplicaStats,
    accept_more,
    install_protocol,
)


class Metrics:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def inc_num_ongoing_requests(self, request: Any) -> None:
        self.told.append(("+", request.is_direct_ingress))

    def dec_num_ongoing_requests(self, request: Any) -> None:
        self.told.append(("-", request.is_direct_ingress))

    def record_request_metrics(self, **of_request: Any) -> None:
        self.told.append(of_request)


def replica_with(log: dict[str, Any] | None = None, separate: bool = False) -> Any:
    class Replica:
        _route_prefix = "/api"
        _metrics_manager = Metrics()
        _deployment_config = SimpleNamespace(
            logging_config={"enable_access_log": False} if log is None else log
        )
        _user_callable_wrapper = SimpleNamespace(_run_user_code_in_separate_thread=separate)

        async def serve(self, scope: Any, receive: Any, send: Any) -> None: ...

    return Replica()


async def protocol_of(monkeypatch: pytest.MonkeyPatch, replica: Any, **of_http: Any) -> Any:
    """Start a server as Serve does, and return what its connections are made with."""
    server = SimpleNamespace(config=SimpleNamespace(http="auto"), started=False)

    async def start(app: Any, options: Any, **_: Any) -> Any:
        return asyncio.current_task(), server

    options = SimpleNamespace(**{"request_timeout_s": None, "middlewares": [], **of_http})
    monkeypatch.setattr(serve_replica, "start_asgi_http_server", start)
    install_protocol(lambda stats: stats)  # type: ignore[arg-type,return-value]
    await serve_replica.start_asgi_http_server(replica.serve, options)
    server.accepting_more.cancel()
    return server.config.http


async def test_where_the_wrapper_is_not_needed_connections_are_ours(monkeypatch):
    assert isinstance(await protocol_of(monkeypatch, replica_with()), ReplicaStats)


@pytest.mark.parametrize(
    ("replica", "of_http"),
    [
        (replica_with(), {"request_timeout_s": 3.0}),
        (replica_with(), {"middlewares": ["one"]}),
        (replica_with(log={}), {}),
        (replica_with(log={"enable_access_log": True}), {}),
        (replica_with(separate=True), {}),
    ],
)
async def test_where_serve_is_asked_for_what_its_wrapper_does_nothing_changes(
    monkeypatch, replica, of_http
):
    assert await protocol_of(monkeypatch, replica, **of_http) == "auto"


def test_serve_is_told_of_every_request():
    replica = replica_with()
    stats = ReplicaStats(replica)
    stats.began()
    stats.ended("/api/act", 0.002, None)
    stats.ended("/api/act", 0.003, "CancelledError")
    told = {"route": "/api/act", "latency_ms": 2.0, "is_error": False, "exception_type": None}
    failed = told | {"latency_ms": 3.0, "is_error": True, "exception_type": "CancelledError"}
    assert replica._metrics_manager.told == [("+", True), ("-", True), told, ("-", True), failed]


def test_the_prefix_is_that_of_now():
    replica = replica_with()
    stats = ReplicaStats(replica)
    prefixes = []
    for prefix in ("/api", "/", None):
        replica._route_prefix = prefix
        prefixes.append(stats.prefix)
    assert prefixes == ["/api", "", ""]


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def test_a_server_accepts_many_connections_in_a_turn_and_none_when_it_has_ended():
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve([listener]))
    await asyncio.wait_for(accept_more(server), 5)
    assert len(server.servers) == ACCEPTED_AT_ONCE
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{address[1]}") as client:
        answers = await asyncio.gather(*(client.get("/") for _ in range(64)))
    assert {answer.status_code for answer in answers} == {204}
    server.should_exit = True
    await asyncio.wait_for(serving, 5)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=1)


async def test_a_server_renews_the_date_until_it_ends(monkeypatch):
    monkeypatch.setattr(http_server, "TICK_S", 0)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
    server.config.load()
    seen: list[bytes] = []

    async def note() -> None:
        seen.append(server.server_state.default_headers[0][0])
        server.server_state.default_headers = []
        server.should_exit = len(seen) == 3

    server.config.callback_notify = note
    server.config.timeout_notify = 0
    await asyncio.wait_for(http_server.tick(server), 5)
    assert seen == 3 * [b"date"]
