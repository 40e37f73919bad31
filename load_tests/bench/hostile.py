"""Measures what well-behaved clients feel of hostile ones, through the edge and at Serve's front.

Paced requests for single predictions over 128 connections, alone and beside each kind of hostile
client in turn: latency, rate, and the growth of the memory of all processes. The hostile clients
run in this process, on the same cores.

    make bench ARGS="hostile --rounds 3 --only half-closed,body"
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from load_tests.bench.harness import PACED, Benchmark, Target, measure_into
from load_tests.bench.report import Column, Results
from load_tests.harness.processes import memory_bytes
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System, running_system

NOBODY = "no hostile client"
EDGE, FRONT = "edge", "front"
HOSTILE_ADDRESS = "127.0.0.2"  # not that of the others, because connections are limited by address
HOLDING, BUSY = 500, 4  # clients that only hold connections, and clients that ask all the time
DRIP_S = 1.0
CONNECT_S = 1.0
PAUSE_S = 0.1  # of a client that asks all the time; without it, sending would keep the cores busy
MB = 1 << 20

Address = tuple[str, int]


@dataclass(frozen=True)
class Hostile:
    """A kind of hostile client.

    Attributes:
        about: what it does.
        opening: what each client sends at first.
        drip: what it sends each second afterwards.
        repeats: whether it connects and sends again as soon as it is answered or cut off.
        half_closed: whether it closes its side at once.
        clients: how many of those that only hold connections.
        listener: of the edge that they ask.
        edge_only: whether Serve's front has no defence, and admits no other client.
    """

    about: str
    opening: bytes
    drip: bytes = b""
    repeats: bool = False
    half_closed: bool = False
    clients: int = HOLDING
    listener: str = "inference"
    edge_only: bool = False


def _post(path: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {size}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


_ITEM = b'{"junction_id":"300839359","obs_data":[1,0,1,0.2,0,0.4,0.1,0]}'
_ITEMS = b'{"items":[%s]}' % b",".join([_ITEM] * 10_000)
_MEMBERS = b"{%s}" % b",".join(b'"m%05d":%d' % (n, n) for n in range(4000))
_LONG_NUMBER = b'{"junction_id":"300839359","obs_data":[%s]}' % (b"1" * 60_000)
_HALF_A_BODY = _post("/predict_action", b"{", length=90)
_STREAM = b"GET /console/stream?run=default HTTP/1.1\r\nHost: localhost\r\n\r\n"

KINDS = {
    "slow-body": Hostile("500 send a byte of a body each second", _HALF_A_BODY, b" "),
    "slow-header": Hostile(
        "500 send a byte of a header each second",
        b"POST /predict_action HTTP/1.1\r\nHost: localhost\r\nX-A: ",
        b"a",
    ),
    "half-closed": Hostile("500 half-closed connections", _HALF_A_BODY, half_closed=True),
    "header": Hostile(
        "headers of 1 MB", _post("/predict_action", b"{}", "X-A: " + "a" * MB), repeats=True
    ),
    "items": Hostile("10,000 items", _post("/predict_actions", _ITEMS), repeats=True),
    "body": Hostile("bodies of 10 MB", _post("/predict_action", b"[" * (10 * MB)), repeats=True),
    "nesting": Hostile(
        "JSON 30,000 deep",
        _post("/predict_action", b"[" * 30_000 + b"]" * 30_000),
        repeats=True,
    ),
    "members": Hostile("items of 4,000 members", _post("/predict_action", _MEMBERS), repeats=True),
    "number": Hostile(
        "numbers of 60,000 digits", _post("/predict_action", _LONG_NUMBER), repeats=True
    ),
    "consoles": Hostile("200 consoles that do not read", _STREAM, clients=200, listener="gateway"),
    "connections": Hostile(
        "10,000 connections of one address", b"", clients=10_000, edge_only=True
    ),
}


def _subject(place: str, kind: Hostile | None) -> str:
    return f"{place}: {kind.about if kind else NOBODY}"


def _measure(options: argparse.Namespace, results: Results) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(16_384, hard), hard))
    applications = [
        shipped_application("inference"),
        shipped_application("console", args={"login": False}),
    ]
    base = options.port_base
    with running_system(*applications, port_base=base, edge=True) as system:
        assert system.edge is not None
        places = {EDGE: system.edge.listeners()["inference"]}
        if not options.edge:
            places[FRONT] = ("127.0.0.1", system.instance.ports.front)
        for _ in range(options.rounds):
            for place, address in places.items():
                for kind in (None, *(KINDS[part] for part in options.only)):
                    if place == EDGE or kind is None or not kind.edge_only:
                        _measure_beside(system, place, address, kind, options.seconds, results)


def _measure_beside(
    system: System,
    place: str,
    address: Address,
    kind: Hostile | None,
    seconds: float,
    results: Results,
) -> None:
    processes = system.instance.processes
    url = f"http://{address[0]}:{address[1]}/predict_action"
    target = Target(_subject(place, kind), url, ("predict",), processes)
    before = memory_bytes(processes())
    if kind and place == EDGE and system.edge:
        address = system.edge.listeners()[kind.listener]
    with _beside(kind, address):
        measure_into(results, target, PACED, seconds)
        results.add(target.name, {"grown_mb": (memory_bytes(processes()) - before) / 1e6})


@contextlib.contextmanager
def _beside(kind: Hostile | None, address: Address) -> Iterator[None]:
    """Run the hostile clients of a kind meanwhile."""
    if kind is None:
        yield
        return
    stopped = threading.Event()
    if kind.repeats:
        work = partial(_repeat, kind, address, stopped)
    else:
        work = partial(_hold, kind, list(_connect_all(kind, address)), stopped)
    n_threads = BUSY if kind.repeats else 1
    threads = [threading.Thread(target=work, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join(10)


def _connect_all(kind: Hostile, address: Address) -> Iterator[socket.socket]:
    for _ in range(kind.clients):
        try:
            source = (HOSTILE_ADDRESS, 0)
            client = socket.create_connection(address, CONNECT_S, source_address=source)
            client.sendall(kind.opening)
            if kind.half_closed:
                client.shutdown(socket.SHUT_WR)
            yield client
        except TimeoutError:
            return  # no more connections are accepted
        except OSError:
            pass  # cut off at once, beyond the limit of an address


def _hold(kind: Hostile, clients: Sequence[socket.socket], stopped: threading.Event) -> None:
    while not stopped.wait(DRIP_S):
        for client in clients:
            with contextlib.suppress(OSError):
                if kind.drip:
                    client.sendall(kind.drip)
    for client in clients:
        client.close()


def _repeat(kind: Hostile, address: Address, stopped: threading.Event) -> None:
    while not stopped.wait(PAUSE_S):
        with (
            contextlib.suppress(OSError),  # cut off, as it should be
            socket.create_connection(address, 5, (HOSTILE_ADDRESS, 0)) as client,
        ):
            client.sendall(kind.opening)
            client.recv(4096)


BENCHMARK = Benchmark(
    name="hostile",
    about=__doc__,
    parts=list(KINDS),
    measure=_measure,
    tables=[
        [
            Column("p99 ms", "p99_ms", PACED.name, 1, versus_first=True),
            Column("p50 ms", "p50_ms", PACED.name, 1),
            Column("req/s", "per_s", PACED.name),
            Column("memory grown, MB", "grown_mb"),
        ]
    ],
    rounds=2,
)
