"""An HTTP server on a port of this process, whose answers a test makes."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple


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
    daemon_threads = True
    request_queue_size = 1024


@contextmanager
def serving(respond: Callable[[Request], Answer | None]) -> Iterator[str]:
    """Answer requests in threads, and yield the server's URL.

    Args:
        respond: returns the answer to a request; None closes the connection without one.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            answer = respond(Request(self.command, self.path, headers, body))
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

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
