"""Requests with marks, over connections that are treated badly on both sides of the edge.

Each client counts its requests and expects its own marks back, in their order. Replicas drop
requests, answer late and break off; clients send the next request early, leave, reset and
half-close their connections; and the edge reloads and loses replicas meanwhile. With
``MARKED_REQUESTS=1000000`` the test takes some twenty minutes.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import struct
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest

from load_tests.harness.system import start_edge
from load_tests.harness.waiting import wait_until
from serve_app.processes.edge import Edge
from tests.edge.conftest import ROUTES, make_edge

N_REQUESTS = int(os.environ.get("MARKED_REQUESTS", "4000"))
N_CLIENTS = 16
N_EVENTS = 12
ANSWER_S = 20.0
LATE_S = 0.02
REPLICAS = ("a", "b")
HOW = {"": 60, "drop once": 10, "late": 8, "drop": 1, "break off": 1}
"""What a replica does to a request, and how often."""
THEN = {"wait": 70, "send early": 20, "leave": 4, "reset": 3, "half-close": 3}
"""What a client does once it has sent a request, and how often."""

Marks = dict[str, set[str]]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Replica:
    """Answers each request with its mark.

    Attributes:
        keys: the idempotency keys that came with each mark.
    """

    def __init__(self, keys: Marks) -> None:
        self.keys = keys
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def drop_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        self.drop_connections()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                await writer.drain()
        self._writers.discard(writer)
        writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection stays."""
        line, headers = await read_head(reader)
        await reader.readexactly(int(headers.get("content-length", 0)))
        if line.startswith("GET /-/routes"):
            write(writer, "HTTP/1.1 200 OK", json.dumps(ROUTES))
            return True
        mark, key = headers["x-mark"], headers["idempotency-key"]
        repeated = key in self.keys[mark]
        self.keys[mark].add(key)
        match headers.get("x-do", ""):
            case "drop":
                return False
            case "drop once" if not repeated:
                return False
            case "late":
                await asyncio.sleep(LATE_S)
            case "break off":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf an answer")
                return False
        write(writer, "HTTP/1.1 200 OK", mark)
        return True


async def read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
    pairs = (each.partition(": ") for each in lines)
    return line, {name.lower(): value for name, _, value in pairs}


def write(writer: asyncio.StreamWriter, line: str, body: str, *headers: str) -> None:
    head = "\r\n".join((line, *headers, f"content-length: {len(body)}"))
    writer.write(f"{head}\r\n\r\n{body}".encode())


class Client:
    """Sends marked requests over one connection after another, and checks each answer.

    Attributes:
        outcomes: the statuses of all answers, and 0 for each request without one.
    """

    def __init__(self, edge: Edge, name: str) -> None:
        self._address = edge.listeners()["inference"]
        self._name = name
        self._random = random.Random(name)
        self._stream: Stream | None = None
        self.sent = 0
        self.outcomes: dict[int, int] = defaultdict(int)

    async def send(self, n_requests: int) -> None:
        goal = self.sent + n_requests
        try:
            while self.sent < goal:
                try:
                    await self._send_then(self._pick(THEN))
                except (OSError, asyncio.IncompleteReadError):
                    self.outcomes[0] += 1
                    self.close()
        finally:
            self.close()

    async def _send_then(self, then: str) -> None:
        reader, writer = self._stream = self._stream or await asyncio.open_connection(
            *self._address
        )
        marks = [self._request(writer) for _ in range(2 if then == "send early" else 1)]
        if then in ("leave", "reset"):
            if then == "reset":
                opened: socket.socket = writer.get_extra_info("socket")
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await asyncio.sleep(self._random.choice((0, 0.002)))
            raise ConnectionAbortedError
        if then == "half-close":
            writer.write_eof()
        for mark in marks:
            # HAProxy may take a client that half-closes for one that left
            await self._check(reader, mark, {400, 503} if then == "half-close" else {503})
        if then == "half-close":
            self.close()

    def _request(self, writer: asyncio.StreamWriter) -> str:
        self.sent += 1
        mark = f"{self._name}.{self.sent}"
        run, how = f"run-{self._random.randrange(50)}", self._pick(HOW)
        headers = ("host: localhost", f"x-mark: {mark}", f"x-simulation-run: {run}", f"x-do: {how}")
        write(writer, "POST /predict_action HTTP/1.1", "{}", *headers)
        return mark

    async def _check(self, reader: asyncio.StreamReader, mark: str, refusals: set[int]) -> None:
        async with asyncio.timeout(ANSWER_S):
            line, headers = await read_head(reader)
            body = (await reader.readexactly(int(headers["content-length"]))).decode()
        status = int(line.split()[1])
        assert status in refusals or body == mark, f"{body!r} is the answer to {mark}"
        self.outcomes[status] += 1
        if headers.get("connection") == "close":
            self.close()

    def _pick(self, weights: dict[str, int]) -> str:
        (picked,) = self._random.choices(list(weights), list(weights.values()))
        return picked

    def close(self) -> None:
        if self._stream is not None:
            self._stream[1].transport.abort()
            self._stream = None


class System:
    """An edge with two replicas, and a third one in the place of Serve's front."""

    def __init__(self, edge: Edge, replicas: dict[str, Replica], ports: dict[str, int]) -> None:
        self.edge = edge
        self.replicas = replicas
        self._ports = ports

    def tell_the_edge(self, *names: str) -> None:
        known = {f"SERVE_REPLICA_{name}": f"127.0.0.1:{self._ports[name]}" for name in names}
        for _ in range(2):  # once is not settled
            self.edge.replica_servers().reconcile({"/": known})

    async def disturb(self, number: int) -> None:
        match number % 3:
            case 0:
                self.replicas[REPLICAS[number % 2]].drop_connections()
            case 1:
                await asyncio.to_thread(self.tell_the_edge, REPLICAS[number % 2])
            case 2:
                master = self.edge.master()
                assert master is not None
                master.send_signal(signal.SIGUSR2)
                await asyncio.to_thread(wait_until, self._answers, 10, "the edge has reloaded")
        await asyncio.to_thread(self.tell_the_edge, *REPLICAS)

    def _answers(self) -> bool:
        try:
            self.tell_the_edge(*REPLICAS)
        except OSError:
            return False
        return True


@pytest.fixture
async def keys() -> Marks:
    return defaultdict(set)


@pytest.fixture
async def system(keys: Marks, tmp_path) -> AsyncIterator[System]:
    replicas = {name: Replica(keys) for name in (*REPLICAS, "front")}
    ports = {name: await each.start() for name, each in replicas.items()}
    edge = make_edge(tmp_path, ports["front"])
    await asyncio.to_thread(start_edge, edge)
    system = System(edge, replicas, ports)
    await asyncio.to_thread(system.tell_the_edge, *REPLICAS)
    yield system
    await asyncio.to_thread(edge.stop)
    for each in replicas.values():
        await each.close()


@pytest.mark.timeout(300 + N_REQUESTS / 200)
async def test_every_answer_is_that_of_its_request_and_a_repeated_request_keeps_its_key(
    system, keys
):
    clients = [Client(system.edge, f"client-{number}") for number in range(N_CLIENTS)]
    for number in range(N_EVENTS):
        async with asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(client.send(N_REQUESTS // N_CLIENTS // N_EVENTS))
            tasks.create_task(system.disturb(number))
    outcomes: dict[int, int] = defaultdict(int)
    for client in clients:
        for status, count in client.outcomes.items():
            outcomes[status] += count
    assert set(outcomes) <= {0, 200, 400, 503}
    assert outcomes[200] > 0.8 * sum(outcomes.values())
    assert {len(each) for each in keys.values()} == {1}
