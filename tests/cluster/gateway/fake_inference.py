"""An inference service on a port of this process, as well or as badly as a test wants it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeInference:
    """Answers every request with ``status`` and ``body``, and none while ``hanging``."""

    def __init__(self) -> None:
        self.status = 200
        self.body: dict[str, object] = {"action": 1, "status": "healthy"}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._go = threading.Event()
        self._go.set()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.rfile.read(int(headers.get("content-length", 0)))
                fake.requests.append((self.path, headers))
                fake._go.wait(30)
                content = json.dumps(fake.body).encode()
                self.send_response(fake.status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/predict_action"

    @property
    def hanging(self) -> bool:
        return not self._go.is_set()

    @hanging.setter
    def hanging(self, value: bool) -> None:
        if value:
            self._go.clear()
        else:
            self._go.set()

    def close(self) -> None:
        self.hanging = False
        self._server.shutdown()
        self._server.server_close()
