"""Exchanges with a server that sends, byte for byte, what the test says."""

import asyncio
import contextlib
import ssl
import subprocess

import pytest
import pytest_asyncio

from deployments.gateway.inference_calls import connections
from deployments.gateway.inference_calls.connections import Connections, Response

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request with the next of ``answers``, the last of them for ever."""

    def __init__(self) -> None:
        self.answers = [PLAIN]
        self.requests: list[bytes] = []
        self.n_connections = 0
        self.ended = asyncio.Event()  # some client has gone
        self.url = ""
        self.tasks: set[asyncio.Task[object] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        self.tasks.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                self.requests.append(head + await reader.readexactly(int(length or 0)))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                writer.write(answer)
                if b"\r\n" in answer and (b"close" in answer or b"Content" not in answer):
                    break
        self.ended.set()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def end(self) -> None:
        """Return when all clients have gone."""
        await asyncio.gather(*filter(None, self.tasks))


@pytest_asyncio.fixture
async def server():
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/predict_action"
    yield server
    listening.close()
    await server.end()


@pytest_asyncio.fixture
async def kept(server):
    kept = Connections()
    yield kept
    kept.close()


async def ask(kept: Connections, server: Server, body: bytes | None = b"{}") -> Response:
    async with asyncio.timeout(5):
        return await kept.exchange("POST", server.url, {"X-Simulation-Run": "a"}, body)


async def test_a_request_is_sent_in_one_piece_and_its_answer_read(kept, server):
    assert await ask(kept, server) == Response(200, {"content-length": "2"}, b"ok")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    host = server.url.split("/")[2]
    assert first == "POST /predict_action HTTP/1.1"
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
async def test_whatever_tells_the_length_of_an_answer_is_understood(kept, server, answer):
    server.answers = [answer, PLAIN]
    for _ in range(2):
        response = await ask(kept, server)
        assert (response.status, response.body) == (200, b"ok")


async def test_one_connection_serves_one_exchange_after_the_other(kept, server):
    for _ in range(5):
        await ask(kept, server)
    assert server.n_connections == 1


async def test_exchanges_at_once_have_connections_of_their_own_within_a_bound(
    kept, server, monkeypatch
):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    bounded = Connections()
    await asyncio.gather(*(ask(bounded, server) for _ in range(20)))
    assert 1 < server.n_connections <= 3
    bounded.close()


async def test_a_connection_that_was_idle_for_long_is_not_used_again(kept, server, monkeypatch):
    await ask(kept, server)
    monkeypatch.setattr(connections, "IDLE_S", 0.0)
    await ask(kept, server)
    assert server.n_connections == 2


async def test_a_connection_that_the_server_has_closed_is_not_used_again(kept, server):
    server.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nclose", PLAIN]
    await ask(kept, server)
    await server.end()
    for _ in range(5):  # the loop hears of it
        await asyncio.sleep(0)
    assert (await ask(kept, server)).body == b"ok"
    assert server.n_connections == 2


async def test_what_follows_an_answer_is_not_taken_for_the_next(kept, server):
    server.answers = [PLAIN + b"HTTP/1.1 408 Timeout\r\nContent-Length: 3\r\n\r\nlat", PLAIN]
    for _ in range(2):
        assert await ask(kept, server) == Response(200, {"content-length": "2"}, b"ok")
    assert server.n_connections == 2


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
    kept, server, monkeypatch, answer, why
):
    monkeypatch.setattr(connections, "MAX_ANSWER", 5000)
    server.answers = [answer, PLAIN]
    with pytest.raises(ConnectionError, match=why):
        await ask(kept, server)
    assert (await ask(kept, server)).body == b"ok"
    assert server.n_connections == 2


async def test_who_gives_up_leaves_no_answer_to_the_next(kept, server):
    server.answers = [b"", PLAIN]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await ask(kept, server)
    await asyncio.wait_for(server.ended.wait(), 5)
    assert (await ask(kept, server)).status == 200
    assert server.n_connections == 2


async def test_a_header_cannot_add_another(kept, server):
    with pytest.raises(ValueError, match="line break"):
        await kept.exchange("POST", server.url, {"X-Simulation-Run": "a\r\nX-Evil: 1"}, b"")
    with pytest.raises(ValueError, match="line break"):
        await kept.exchange("POST", server.url, {"X-Simulation-Run": "a\nX-Evil: 1"}, b"")
    assert server.requests == []


async def test_a_server_with_an_unknown_certificate_is_refused_and_a_known_one_asked(
    kept, server, tmp_path, monkeypatch
):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening = await asyncio.start_server(server.serve, "localhost", 0, ssl=context)
    server.url = f"https://localhost:{listening.sockets[0].getsockname()[1]}/predict_action"
    with pytest.raises(ssl.SSLCertVerificationError):
        await ask(kept, server)
    monkeypatch.setattr(connections, "_tls", lambda: ssl.create_default_context(cafile=certificate))
    assert (await ask(kept, server)).body == b"ok"
    listening.close()
