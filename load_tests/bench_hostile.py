"""Measures what other clients feel of those that misbehave, through the edge and at Serve's front.

Paced requests for single predictions over 128 connections, alone and beside each kind of bad
client in turn: latency, requests per second, and by how much the memory of all processes has grown.
The bad clients run in this process, on the same cores.

    make bench-hostile ARGS="--rounds 3 --seconds 4"
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import resource
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from load_tests.bench import harness
from load_tests.bench.comparison.processes import resident_bytes
from load_tests.bench.harness import Bar, console
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Sample, Samples, Target, run_wrk
from serve_app.processes.edge import Edge, EdgePorts
from serve_app.processes.instance import Instance

CONNECTIONS = 128
ALONE = "nobody"
PLACES = EDGE, FRONT = "edge", "front"
MANY = "10,000 connections"
AT_THE_EDGE_ALONE = {MANY}  # Serve's front has no bound for an address: nobody else gets in there
BAD_ADDRESS = "127.0.0.2"  # not that of the others: it has its bound of connections
SLOW, BUSY = 500, 4  # bad clients that only hold connections, and such that ask all the time
DRIP_S = 1.0
TAKEN_S = 1.0
PAUSE_S = 0.1  # of a client that asks all the time: without, the cores would be busy with sending
MB = 1 << 20

Address = tuple[str, int]


@dataclass(frozen=True)
class Bad:
    """A kind of bad client.

    Attributes:
        opening: what each sends at first.
        drip: what it sends a second after another; nothing holds still.
        repeats: whether it connects and sends anew as soon as it is answered, or cut off.
        half_closed: whether it says at once that it will send no more.
        clients: how many of those that only hold connections.
    """

    opening: bytes
    drip: bytes = b""
    repeats: bool = False
    half_closed: bool = False
    clients: int = SLOW


def _post(path: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {size}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


_ITEM = b'{"junction_id":"300839359","obs_data":[1,0,1,0.2,0,0.4,0.1,0]}'
_MEMBERS = b"{%s}" % b",".join(b'"m%05d":%d' % (n, n) for n in range(4000))
_LONG_NUMBER = b'{"junction_id":"300839359","obs_data":[%s]}' % (b"1" * 60_000)
KINDS = {
    "1 byte of a body a second": Bad(_post("/predict_action", b"{", length=90), b" "),
    "1 byte of a header a second": Bad(b"POST /predict_action HTTP/1.1\r\nHost: x\r\nX-A: ", b"a"),
    "half-closed": Bad(_post("/predict_action", b"{", length=90), half_closed=True),
    "headers of 1 MB": Bad(_post("/predict_action", b"{}", "X-A: " + "a" * MB), repeats=True),
    "10,000 items": Bad(
        _post("/predict_actions", b'{"items":[%s]}' % b",".join([_ITEM] * 10_000)), repeats=True
    ),
    "body of 10 MB": Bad(_post("/predict_action", b"[" * (10 * MB)), repeats=True),
    "JSON 30,000 deep": Bad(_post("/predict_action", b"[" * 30_000 + b"]" * 30_000), repeats=True),
    "4,000 members": Bad(_post("/predict_action", _MEMBERS), repeats=True),
    "a number of 60,000 digits": Bad(_post("/predict_action", _LONG_NUMBER), repeats=True),
    MANY: Bad(b"", clients=10_000),
}


def main() -> int:
    bars = [
        Bar(_named(place, kind), "p99_ms", CONNECTIONS, _named(place, ALONE), "<=", 2)
        for place, kind in itertools.product(PLACES, KINDS)
        if place == EDGE or kind not in AT_THE_EDGE_ALONE
    ]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(16_384, hard), hard))
    return harness.run(__doc__, 27500, bars, _measure)


def _named(place: str, kind: str) -> str:
    return f"{place}: {kind}"


def _measure(options: argparse.Namespace) -> Samples:
    samples: Samples = {}
    inference = shipped_application("inference")
    with harness.serving(options.port_base, [inference], edge=True) as (instance, _):
        edge = Edge(instance, EdgePorts.from_base(options.port_base))
        edge.start()
        places = {
            EDGE: edge.listeners()["inference"],
            FRONT: ("127.0.0.1", instance.ports.front),
        }
        for number in range(options.rounds):
            console.print(f"round {number + 1} of {options.rounds}")
            for (place, address), kind in itertools.product(places.items(), (ALONE, *KINDS)):
                if place == FRONT and kind in AT_THE_EDGE_ALONE:
                    continue
                sample = _sample(instance, _named(place, kind), address, kind, options.seconds)
                samples.setdefault((_named(place, kind), CONNECTIONS), []).append(sample)
    return samples


def _sample(instance: Instance, name: str, address: Address, kind: str, seconds: float) -> Sample:
    url = f"http://{address[0]}:{address[1]}/predict_action"
    before = resident_bytes(instance.processes())
    with _beside(KINDS.get(kind), address):
        sample = run_wrk(Target(name, url, "predict_action_paced.lua"), CONNECTIONS, seconds)
        grown = (resident_bytes(instance.processes()) - before) / MB
    console.print(
        f"{name:<36} p99 {sample.p99_ms:6.1f} ms"
        f"  {sample.requests_per_s:.0f} req/s  {grown:+.0f} MB"
    )
    return sample


@contextlib.contextmanager
def _beside(bad: Bad | None, address: Address) -> Iterator[None]:
    """Have bad clients, if any, while something is measured."""
    if bad is None:
        yield
        return
    ended = threading.Event()
    if bad.repeats:
        work = partial(_repeat, bad, address, ended)
    else:
        work = partial(_drip, bad, list(_open_all(bad, address)), ended)
    n_threads = BUSY if bad.repeats else 1
    threads = [threading.Thread(target=work, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(10)


def _open_all(bad: Bad, address: Address) -> Iterator[socket.socket]:
    for _ in range(bad.clients):
        try:
            client = socket.create_connection(address, TAKEN_S, source_address=(BAD_ADDRESS, 0))
            client.sendall(bad.opening)
            if bad.half_closed:
                client.shutdown(socket.SHUT_WR)
            yield client
        except TimeoutError:
            return  # nobody takes any more
        except OSError:
            pass  # cut off at once, as beyond a bound it should be


def _drip(bad: Bad, clients: Sequence[socket.socket], ended: threading.Event) -> None:
    while not ended.wait(DRIP_S):
        for client in clients:
            with contextlib.suppress(OSError):
                if bad.drip:
                    client.sendall(bad.drip)
    for client in clients:
        client.close()


def _repeat(bad: Bad, address: Address, ended: threading.Event) -> None:
    while not ended.wait(PAUSE_S):
        try:
            with socket.create_connection(address, 5, (BAD_ADDRESS, 0)) as client:
                client.sendall(bad.opening)
                client.recv(4096)
        except OSError:
            pass  # cut off, as it should be


if __name__ == "__main__":
    sys.exit(main())
