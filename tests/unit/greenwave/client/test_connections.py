"""Connections on real sockets: what they tell of each fault, and how soon."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from greenwave.client import Client
from greenwave.client.call import NoReply, Reply, Send
from greenwave.client.connections import Connections
from tests.support.raw_server import (
    ANSWER,
    Misbehave,
    Server,
    answer_at_length,
    break_off,
    closed_port,
    drop,
    drop_second,
    keep_silent,
    reply,
    talk_nonsense,
)

Exchange = Callable[[Send], Reply | NoReply]
TIMEOUT_S = 0.5
ENDLESS_S = 30.0


def request(url: str, method: str = "POST", timeout_s: float = TIMEOUT_S) -> Send:
    return Send(method, f"{url}/path", {"x-simulation-run": "a"}, b"{}", timeout_s, timeout_s)


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    connections = Connections(10, None)
    with asyncio.Runner() as runner:
        yield lambda send: runner.run(connections(send))
        runner.run(connections.close())


def outcome(exchange: Exchange, misbehave: Misbehave) -> Reply | NoReply:
    with Server(misbehave) as server:
        return exchange(request(server.url))


def test_requests_share_a_connection(exchange):
    with Server() as server:
        for _ in range(5):
            answer = exchange(request(server.url))
            assert isinstance(answer, Reply)
            assert (answer.status, answer.body, answer.is_json) == (200, b"{}", True)
    assert (len(server.requests), server.connections) == (5, 1)


def test_a_client_has_all_its_connections_over_a_unix_socket(tmp_path):
    path = tmp_path / "inference.sock"
    with (
        Server(unix_socket=path) as server,
        Client("http://localhost", unix_socket=path) as client,
    ):
        for _ in range(3):
            client.inference.run("a").reset()
    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize(
    "url",
    ["http://nowhere.invalid", "https://127.0.0.1:1", closed_port()],
    ids=["no name", "TLS", "closed"],
)
def test_a_host_that_is_not_there_has_got_nothing(exchange, url):
    answer = exchange(request(url, timeout_s=5))
    assert isinstance(answer, NoReply)
    assert not answer.sent
    assert re.fullmatch(r"No connection: [A-Z][A-Za-z ]+", answer.reason), "in words alone"


@pytest.mark.parametrize("misbehave", [drop, break_off, talk_nonsense])
def test_a_lost_answer_may_have_been_preceded_by_the_deed(exchange, misbehave):
    answer = outcome(exchange, misbehave)
    assert isinstance(answer, NoReply)
    assert answer.sent
    assert "No answer" in answer.reason


def test_an_answer_without_an_end_is_not_kept(exchange):
    with Server(answer_at_length) as server:
        answer = exchange(request(server.url, timeout_s=10))
    assert isinstance(answer, NoReply)
    assert "longer than" in answer.reason


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("misbehave", [drop, drop_second])
def test_no_library_sends_a_request_again_by_itself(exchange, misbehave, method):
    with Server(misbehave) as server:
        outcomes = [exchange(request(server.url, method)) for _ in range(2)]
        assert isinstance(outcomes[1], NoReply)
    assert len(server.requests) == 2


@pytest.mark.parametrize("head", [ANSWER.replace(b": 2\r", b": 9999\r"), b""])
def test_an_answer_that_drips_in_ends_in_time(exchange, head):
    ended = threading.Event()

    def drip(connection: socket.socket, number: int) -> None:
        connection.sendall(head)
        while not ended.wait(0.05) and time.monotonic() < started + ENDLESS_S:
            connection.sendall(b"x")

    started = time.monotonic()
    try:
        answer = outcome(lambda send: _then(exchange(send), ended), drip)
    finally:
        ended.set()
    assert time.monotonic() - started < ENDLESS_S
    assert isinstance(answer, NoReply)
    assert answer.sent


def _then(answer: Reply | NoReply, event: threading.Event) -> Reply | NoReply:
    event.set()
    return answer


def test_after_a_fault_the_next_request_gets_its_own_answer(exchange):
    with Server(lambda connection, n: (reply if n > 1 else keep_silent)(connection, n)) as server:
        assert isinstance(exchange(request(server.url)), NoReply)
        assert isinstance(exchange(request(server.url)), Reply)
    assert server.connections == 2


async def test_a_cancelled_request_leaves_no_answer_to_the_next_one():
    connections = Connections(1, None)
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    def misbehave(connection: object, number: int) -> None:
        loop.call_soon_threadsafe(arrived.set)
        if number > 1:
            reply(connection, number)  # type: ignore[arg-type]

    with Server(misbehave) as server:
        cancelled = asyncio.create_task(connections(request(server.url, timeout_s=30)))
        await arrived.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert isinstance(await connections(request(server.url)), Reply)
        await connections.close()
    assert server.connections == 2
    assert asyncio.all_tasks() == {asyncio.current_task()}
