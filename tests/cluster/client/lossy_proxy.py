"""A proxy that passes every request on, and loses some of the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import httpx

LENGTH = "inference-header-content-length"
END_TO_END = ("content-type", "idempotency-key", "x-simulation-run", "authorization", LENGTH)


class LossyProxy:
    """A proxy before a URL.

    Args:
        loses: returns whether the answer to the n-th request of this path, from 1, is lost.

    Attributes:
        asked: requests by path.
    """

    def __init__(self, upstream: str, path: str, loses: Callable[[int], bool]) -> None:
        self.asked = 0
        self._lock = threading.Lock()
        client = self._client = httpx.Client(base_url=upstream, timeout=10)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name: self.headers[name] for name in END_TO_END if name in self.headers}
                answer = client.post(self.path, content=body, headers=headers)
                if self.path == path and loses(proxy._next()):
                    self.close_connection = True
                    return
                self.send_response(answer.status_code)
                for name in ("content-type", "x-hidden-state-step", "x-error-code", LENGTH):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, format: str, *arguments: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._client.close()

    def _next(self) -> int:
        with self._lock:
            self.asked += 1
            return self.asked
