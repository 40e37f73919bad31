"""An HTTP server on a port of this process, whose answers a test makes."""

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple


class Request(NamedTuple):
    """A request. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """An answer; its length is added."""

    status: int
    content: bytes
    headers: Mapping[str, str] = MappingProxyType({})


def json_answer(status: int, value: object) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"content-type": "application/json"})


class Server(ThreadingHTTPServer):
    """Answers requests in threads until it is closed.

    Args:
        respond: returns the answer to a request; None closes the connection without one.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, respond: Callable[[Request], Answer | None], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.respond = respond
        self._connections: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def note(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Learn of a request before its body is read."""

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def close(self) -> None:
        """Go as a killed process does, with every connection."""
        self.shutdown()
        self.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # HAProxy ends its health checks with a reset
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves whole or not at all
    server: Server

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.note(self.command, self.path, headers)
        # to its end: a server that answers earlier, and closes, counts as failing
        body = self.rfile.read(int(headers.get("content-length", 0)))
        if headers.get("transfer-encoding") == "chunked":
            while length := int(self.rfile.readline() or b"0", 16):
                body += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
        answer = self.server.respond(Request(self.command, self.path, headers, body))
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_DELETE = do_OPTIONS = do_POST = do_PUT = do_GET

    def log_message(self, format: str, *args: object) -> None: ...


@contextlib.contextmanager
def serving(respond: Callable[[Request], Answer | None]) -> Iterator[str]:
    """Run a server meanwhile, and yield its URL."""
    with contextlib.closing(Server(respond)) as server:
        yield server.url
