"""Servers on real sockets that send, byte for byte, what a test requires."""

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
Misbehave = Callable[[socket.socket, int], None]


def reply(connection: socket.socket, number: int) -> None:
    connection.sendall(ANSWER)


def drop(connection: socket.socket, number: int) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def drop_second(connection: socket.socket, number: int) -> None:
    (drop if number == 2 else reply)(connection, number)


def break_off(connection: socket.socket, number: int) -> None:
    connection.sendall(ANSWER[:-1])
    connection.shutdown(socket.SHUT_RDWR)


def talk_nonsense(connection: socket.socket, number: int) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    connection.shutdown(socket.SHUT_RDWR)


def answer_at_length(connection: socket.socket, number: int) -> None:
    connection.sendall(ANSWER.replace(b": 2\r", b": 99999999\r"))
    while True:
        connection.sendall(b" " * 65536)


def keep_silent(connection: socket.socket, number: int) -> None: ...


@dataclass
class Server:
    """Reads requests, and lets ``misbehave`` answer the n-th, from 1.

    Attributes:
        unix_socket: to listen on; None for a port.
        tls: of its connections; None for plain HTTP.
        requests: heads and bodies; ``connections`` how many were accepted.
    """

    misbehave: Misbehave = reply
    unix_socket: Path | None = None
    tls: ssl.SSLContext | None = None
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    def __enter__(self) -> Self:
        if self.unix_socket is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
        else:
            self._listener = socket.create_server(str(self.unix_socket), family=socket.AF_UNIX)
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):  # it may be closed already
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def wait_until_clients_have_gone(self) -> None:
        for thread in self._threads[1:]:
            thread.join(30)

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        return f"{'http' if self.tls is None else 'https'}://{host}:{port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=[connection]))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        # The client or the test may close the connection at any time.
        with contextlib.suppress(OSError):
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            with connection.makefile("rb") as stream:
                while head := stream.readline():
                    while (line := stream.readline()).strip():
                        head += line
                    length = re.search(rb"(?i)content-length: *([0-9]+)", head)
                    body = stream.read(int(length[1]) if length else 0)
                    self.requests.append(head + b"\r\n" + body)
                    self.misbehave(connection, len(self.requests))


def closed_port() -> str:
    """Return a URL at which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
