"""Every service in this process, on HTTP servers with the fast path, behind two real HAProxies.

The first HAProxy is a minimal Serve front, the second the edge. Beside them is an edge whose front
is away, before a stand-in for Ray's Python proxy. Only Ray is missing.
"""

import asyncio
import contextlib
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI

from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.tokens import Tokens
from deployments.console import api as console
from deployments.console.service import ConsoleService
from deployments.customers import record_types
from deployments.customers.records import api as records
from deployments.customers.records.service import RecordService
from deployments.forecast import api as forecast
from deployments.gateway import api as gateway
from deployments.gateway.fallbacks import Fallback
from deployments.gateway.inference_calls.address import base_finder
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.inference_calls.http_calls import HttpCalls
from deployments.gateway.login import LoginLimits, Logins
from deployments.gateway.service import GatewayService
from deployments.gateway.users import Users
from deployments.inference import api as inference
from deployments.inference.service import InferenceService
from deployments.store import Store, open_store
from load_tests.harness.free_ports import free_ports
from serve_app.processes.edge import Edge
from serve_app.processes.haproxy import binary
from serve_app.processes.ports import is_free
from tests.edge.conftest import ROUTES, make_edge, running
from tests.support.local_states import local_engine
from tests.unit.console.reports import FakeFeed, FakeServe
from tests.unit.forecasters import density_service, flow_service
from tests.unit.gateway.conftest import DEADLINE_S, PASSWORD_HASH, access_by
from tests.unit.http.apps import serving
from tests.unit.inference.policies import WEIGHTS
from tests.unit.inference.replicas import FORM

USER = "ann"

Address = tuple[str, int]


@dataclass
class Services:
    """A running system.

    Attributes:
        edge: in front of everything.
        degraded: the edge while Serve's front is away.
        front: port of the HAProxy in place of Serve's front.
        replicas: port of each application's own server, by its prefix.
    """

    edge: Edge
    degraded: Edge
    front: int
    replicas: dict[str, int]

    def address_of(self, place: str) -> Address:
        """Return where the inference service is reached, at the edge or at the front."""
        return self.edge.listeners()["inference"] if place == "edge" else ("127.0.0.1", self.front)


@contextmanager
def running_services(folder: Path, tokens: Tokens) -> Iterator[Services]:
    """Start all of it, and stop it at the end."""
    with _in_a_thread(_serving(folder, tokens)) as replicas:
        front, fallback, away = free_ports(3)
        decoded = _front(fallback, replicas, "path,url_dec")
        with (
            _haproxy(folder / "front.cfg", _front(front, replicas, "path"), front),
            _haproxy(folder / "fallback.cfg", decoded, fallback),
            running(make_edge(folder, front)) as edge,
            running(make_edge(folder / "degraded", away, fallback)) as degraded,
        ):
            yield Services(edge, degraded, front, replicas)


@contextmanager
def _in_a_thread(serving: contextlib.AbstractAsyncContextManager[dict[str, int]]) -> Iterator[Any]:
    """Keep servers in a separate event loop, as replicas are."""
    ready, ended = threading.Event(), asyncio.Event()
    made: dict[str, int] = {}

    async def live() -> None:
        async with serving as ports:
            made.update(ports)
            ready.set()
            await ended.wait()

    runner = asyncio.Runner()
    thread = threading.Thread(target=runner.run, args=(live(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield made
    finally:
        runner.get_loop().call_soon_threadsafe(ended.set)
        thread.join(30)
        runner.close()


@asynccontextmanager
async def _serving(folder: Path, tokens: Tokens) -> AsyncIterator[dict[str, int]]:
    async with AsyncExitStack() as stack:
        store = open_store(f"sqlite:///{folder / 'store.db'}")
        stack.push_async_callback(store.close)
        asked = await stack.enter_async_context(_inference(folder))
        ports = {"/": (await stack.enter_async_context(serving(asked, ""))).port}
        apps: dict[str, FastAPI] = {
            "/api": await stack.enter_async_context(_gateway(store, tokens, ports["/"])),
            "/console": await stack.enter_async_context(_console(tokens)),
            "/density": forecast.create_app(await density_service(folder)),
            "/flow": forecast.create_app(await flow_service(folder)),
        }
        for kind in record_types().values():
            apps[kind.base_path] = records.create_app(RecordService(kind, store))
        for prefix, app in apps.items():
            ports[prefix] = (await stack.enter_async_context(serving(app, prefix))).port
        yield ports


@asynccontextmanager
async def _inference(folder: Path) -> AsyncIterator[FastAPI]:
    with local_engine(FORM) as engine:
        service = InferenceService(engine)
        torch.save(WEIGHTS, folder / "agent.th")
        await service.policies.primary.slot.load(str(folder / "agent.th"))
        yield inference.create_app(service)
        await service.close()


@asynccontextmanager
async def _gateway(store: Store, tokens: Tokens, asked: int) -> AsyncIterator[FastAPI]:
    users = Users(store, {USER: PASSWORD_HASH})
    url = f"http://127.0.0.1:{asked}/predict_action"
    calls = HttpCalls(base_finder(url, ""), DEADLINE_S)
    client = InferenceClient(calls, DEADLINE_S)
    logins = Logins(store, users, tokens, LoginLimits(per_address=10))
    access = access_by(tokens, AuditBuffer(AuditLog(store)))
    service = GatewayService(logins, access, client, Fallback())
    yield gateway.create_app(service)
    await client.close()


@asynccontextmanager
async def _console(tokens: Tokens) -> AsyncIterator[FastAPI]:
    service = ConsoleService(access_by(tokens), FakeFeed().open, FakeServe([]).read)
    yield console.create_app(service)
    await service.close()


def _front(port: int, replicas: dict[str, int], path: str) -> str:
    """Return the essence of Serve's HAProxy configuration, the longest prefix first.

    Args:
        path: what it routes by; decoded, this is a stand-in for Ray's Python proxy.
    """
    lines = ["global", "    maxconn 2000", "defaults", "    mode http"]
    lines += ["    timeout connect 5s", "    timeout client 60s", "    timeout server 60s"]
    lines += ["    option abortonclose", "frontend front", f"    bind 127.0.0.1:{port}"]
    routes = json.dumps(ROUTES).replace('"', '\\"')
    # a path that cannot be decoded stays as it is
    lines += [f"    http-request set-var(txn.path) {each}" for each in ("path", path)]
    lines += [
        "    http-request return status 200 content-type application/json"
        f' string "{routes}" if {{ path -i /-/routes }}'
    ]
    backends = []
    for number, (prefix, replica) in enumerate(sorted(replicas.items(), key=lambda x: -len(x[0]))):
        below = prefix.rstrip("/") + "/"
        matches = [f"{{ var(txn.path) -m {how} }}" for how in (f"beg {below}", f"str {prefix}")]
        lines += [f"    use_backend b{number} if {' or '.join(matches)}"]
        backends += [f"backend b{number}", "    http-reuse always"]
        backends += [f"    server s 127.0.0.1:{replica}"]
    lines += ["    default_backend nowhere", "backend nowhere"]
    lines += ["    http-request return status 404 content-type text/plain string Path"]
    return "\n".join([*lines, *backends, ""])


@contextmanager
def _haproxy(file: Path, config: str, port: int) -> Iterator[None]:
    file.write_text(config)
    process = subprocess.Popen([binary(), "-db", "-f", str(file)])
    try:
        while is_free(port):
            assert process.poll() is None
        yield
    finally:
        process.terminate()
        process.wait(10)
