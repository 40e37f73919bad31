"""Clients that lie about where they are, or do not keep up their end of a connection."""

import asyncio
import contextlib
import socket
import struct

import httpx
import psutil
import pytest

from tests.adversary.wire import RUN, Address, exchange, request, step
from tests.services.system import USER, Services
from tests.unit.gateway.conftest import PASSWORD

MANY = 4500  # more than one listener of the edge takes
PER_ADDRESS = 3000
STRANGER = ("127.0.0.2", 0)
HONEST = 20
LONGEST_S = 9.0  # less than the edge waits for who sends nothing
AT_ONCE = step(b"Connection: close")
NEVER_READ = request("GET", "/openapi.json") * 50


def edge_process(system: Services) -> psutil.Process:
    port = system.edge.instance.ports.http
    holders = (c.pid for c in psutil.net_connections("tcp") if c.laddr and c.laddr[1] == port)
    return psutil.Process(next(pid for pid in holders if pid))


def places_of(client: str, edge: psutil.Process) -> int:
    """Return how many connections of an address the edge has open."""
    return sum(
        each.raddr[:1] == (client,) and each.status == psutil.CONN_ESTABLISHED
        for each in edge.net_connections("tcp")
    )


async def honest(address: Address) -> None:
    """Have many honest requests at once, each answered within its time."""
    async with asyncio.timeout(LONGEST_S):
        answers = await asyncio.gather(*(exchange(address, [AT_ONCE]) for _ in range(HONEST)))
    assert [[answer.status for answer in each] for each in answers] == [[200]] * HONEST


@pytest.mark.usefixtures("many_sockets")
async def test_thousands_of_open_connections_of_one_address_hinder_no_other(system):
    address = system.edge.listeners()["inference"]
    edge = edge_process(system)
    before = edge.memory_info().rss
    with contextlib.ExitStack() as opened:
        for number in range(MANY):
            with contextlib.suppress(ConnectionError):  # refused: while it connects, or after
                client = socket.create_connection(address, source_address=STRANGER)
                opened.enter_context(client)
                client.sendall((b"", b"POST /pred", AT_ONCE[:-9])[number % 3])
        await honest(address)
        assert 0 < places_of(STRANGER[0], edge) <= PER_ADDRESS
        grown = edge.memory_info().rss - before
    assert grown < PER_ADDRESS * 100_000  # a buffer each, see configs/edge.cfg.tmpl


@pytest.mark.usefixtures("many_sockets")
@pytest.mark.parametrize("place", ["edge", "front"])
async def test_a_client_that_never_reads_takes_no_place_of_others(system, place):
    address = system.address_of(place)
    with contextlib.ExitStack() as opened:
        for _ in range(200):
            deaf = opened.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            deaf.connect(address)
            deaf.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                deaf.send(NEVER_READ)
        await honest(address)


@pytest.mark.parametrize("place", ["edge", "front"])
@pytest.mark.parametrize("at", [20, len(AT_ONCE) - 5, len(AT_ONCE)], ids=["head", "body", "end"])
async def test_a_reset_at_any_place_disturbs_no_other(system, place, at):
    address = system.address_of(place)
    for _ in range(100):
        with socket.create_connection(address) as client:
            client.sendall(AT_ONCE[:at])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await honest(address)


@pytest.mark.parametrize("at", [20, len(AT_ONCE) - 5], ids=["head", "body"])
async def test_a_half_closed_connection_gets_no_step(system, at):
    run = b"half-closed-" + str(at).encode().zfill(len(RUN) - 12)
    address = system.address_of("edge")
    with socket.create_connection(address, timeout=LONGEST_S) as client:
        client.sendall(AT_ONCE.replace(RUN, run)[:at])
        client.shutdown(socket.SHUT_WR)
        received = client.recv(65536)
    assert not received or received.startswith(b"HTTP/1.1 400 ")
    (answer,) = await exchange(address, [AT_ONCE.replace(RUN, run)])
    assert answer.headers["x-hidden-state-step"] == "1"


SPOOFED = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP", "True-Client-IP")


def test_a_client_neither_dodges_the_bound_of_logins_nor_uses_up_anothers(system):
    url = system.edge.urls()["gateway"] + "/api/auth/login"
    wrong = {"username": "unknown-user", "password": "wrong"}
    with httpx.Client(timeout=20) as client:
        statuses = [
            client.post(
                url,
                json=wrong,
                headers={name: f"for=6.6.6.{n}" if name == "Forwarded" else f"6.6.6.{n}"},
            ).status_code
            for n, name in enumerate(SPOOFED * 3)
        ]
        assert statuses[:10] == [401] * 10
        assert set(statuses[10:]) == {429}
        right = {"username": USER, "password": PASSWORD}
        spoofing = {"X-Forwarded-For": "127.0.0.1"}
        assert client.post(url, json=right, headers=spoofing).status_code == 429
