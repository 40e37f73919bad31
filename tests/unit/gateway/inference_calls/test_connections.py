"""Exchanges with a server that sends, byte for byte, what the test says."""

import asyncio
import socket
import ssl
import subprocess

import pytest
import pytest_asyncio

from deployments.gateway.inference_calls import connections
from deployments.gateway.inference_calls.connections import Connections, Response
from tests.support.raw_server import Misbehave, Server

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def answering(answers: list[bytes]) -> Misbehave:
    """Answer each request with the next of these answers, and further ones with the last."""

    def answer(connection: socket.socket, number: int) -> None:
        data = answers[min(number, len(answers)) - 1]
        connection.sendall(data)
        if b"\r\n" in data and (b"close" in data or b"Content" not in data):
            connection.shutdown(socket.SHUT_RDWR)

    return answer


@pytest.fixture
def answers():
    return [PLAIN]


@pytest.fixture
def server(answers):
    with Server(answering(answers)) as server:
        yield server


@pytest_asyncio.fixture
async def kept(server):
    kept = Connections()
    yield kept
    kept.close()


async def ask(kept: Connections, server: Server, body: bytes | None = b"{}") -> Response:
    async with asyncio.timeout(5):
        return await kept.exchange("POST", server.url + "/step", {"X-Simulation-Run": "a"}, body)


async def test_a_request_is_sent_in_one_piece_and_its_answer_read(kept, server):
    assert await ask(kept, server) == Response(200, {"content-length": "2"}, b"ok")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    host = server.url.split("/")[2]
    assert first == "POST /step HTTP/1.1"
    assert headers == [f"Host: {host}", "X-Simulation-Run: a", "Content-Length: 2"]
    assert body == b"{}"


async def test_a_post_without_a_body_says_that_it_has_none(kept, server):
    await ask(kept, server, None)
    assert server.requests[0].endswith(b"Content-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\nok",
        b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
    ],
    ids=["chunked", "then closed", "HTTP/1.0", "as long as the connection", "after an interim one"],
)
async def test_whatever_tells_the_length_of_an_answer_is_understood(kept, server, answers, answer):
    answers[:] = [answer, PLAIN]
    for _ in range(2):
        response = await ask(kept, server)
        assert (response.status, response.body) == (200, b"ok")


async def test_one_connection_serves_one_exchange_after_the_other(kept, server):
    for _ in range(5):
        await ask(kept, server)
    assert server.connections == 1


async def test_exchanges_at_once_have_connections_of_their_own_within_a_bound(
    kept, server, monkeypatch
):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    bounded = Connections()
    await asyncio.gather(*(ask(bounded, server) for _ in range(20)))
    assert 1 < server.connections <= 3
    bounded.close()


async def test_a_connection_that_was_idle_for_long_is_not_used_again(kept, server, monkeypatch):
    await ask(kept, server)
    monkeypatch.setattr(connections, "IDLE_S", 0.0)
    await ask(kept, server)
    assert server.connections == 2


async def test_a_connection_that_the_server_has_closed_is_not_used_again(kept, server, answers):
    answers[:] = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nclose", PLAIN]
    await ask(kept, server)
    await asyncio.to_thread(server.wait_until_clients_have_gone)
    for _ in range(5):  # the loop hears of it
        await asyncio.sleep(0)
    assert (await ask(kept, server)).body == b"ok"
    assert server.connections == 2


async def test_what_follows_an_answer_is_not_taken_for_the_next(kept, server, answers):
    answers[:] = [PLAIN + b"HTTP/1.1 408 Timeout\r\nContent-Length: 3\r\n\r\nlat", PLAIN]
    for _ in range(2):
        assert await ask(kept, server) == Response(200, {"content-length": "2"}, b"ok")
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0-OpenSSH\r\nContent close", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nok", "ended"),
        (b"HTTP/1.1 200 OK\r\nX: close", "ended"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + b"x" * 9999, "too long"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: " + b"x" * 9999, "too long"),
    ],
    ids=["another protocol", "cut off", "cut off in its head", "too long", "with a giant header"],
)
async def test_what_is_no_answer_is_an_error_and_ends_the_connection(
    kept, server, answers, monkeypatch, answer, why
):
    monkeypatch.setattr(connections, "MAX_ANSWER", 5000)
    answers[:] = [answer, PLAIN]
    with pytest.raises(ConnectionError, match=why):
        await ask(kept, server)
    assert (await ask(kept, server)).body == b"ok"
    assert server.connections == 2


async def test_who_gives_up_leaves_no_answer_to_the_next(kept, server, answers):
    answers[:] = [b"", PLAIN]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await ask(kept, server)
    await asyncio.to_thread(server.wait_until_clients_have_gone)
    assert (await ask(kept, server)).status == 200
    assert server.connections == 2


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1"])
async def test_a_header_cannot_add_another(kept, server, value):
    with pytest.raises(ValueError, match="line break"):
        await kept.exchange("POST", server.url, {"X-Simulation-Run": value}, b"")
    assert server.requests == []


async def test_a_server_with_an_unknown_certificate_is_refused_and_a_known_one_asked(
    kept, tmp_path, monkeypatch
):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Server(answering([PLAIN]), tls=context) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(kept, server)
        known = ssl.create_default_context(cafile=certificate)
        monkeypatch.setattr(connections, "_tls", lambda: known)
        assert (await ask(kept, server)).body == b"ok"
        kept.close()
