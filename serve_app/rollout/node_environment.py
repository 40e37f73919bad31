"""The environment of ``ray start`` on every node: its variables, and the Redis that they name."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from serve_app.settings import variables_of

RAY = {
    # Read by the GCS: it gives up a dead node after 2 s instead of 15, and one that hangs after 4.
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    # A busy machine does not start a proxy within Serve's 5 s; Serve then kills it, and the deploy
    # fails.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
}
REDIS_VARIABLES = ("STORE_URL", "RAY_REDIS_ADDRESS")
_REDIS_PORT = 6379
_CONNECT_TIMEOUT_S = 3.0


def variables(config: Mapping[str, Any]) -> dict[str, str]:
    """Return Ray's variables, and those of Serve's processes, which start on later nodes, too."""
    environment = variables_of(config.get("controller_options") or {})
    return RAY | {str(name): str(value) for name, value in environment.items()}


def unreachable_redis(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each Redis that the environment names and that does not answer."""
    for name in REDIS_VARIABLES:
        address = environment.get(name, "")
        if not address or address.startswith("sqlite"):
            continue
        parts = urlsplit(address if "://" in address else f"redis://{address}")
        try:
            host, port = parts.hostname or "", parts.port or _REDIS_PORT
        except ValueError as error:
            yield f"{name} does not name a Redis: {error}."
            continue
        try:
            socket.create_connection((host, port), _CONNECT_TIMEOUT_S).close()
        except OSError as error:
            yield f"{name} names {host}:{port}, where no Redis answers: {error}."
