"""Whether the Redis that the environment names is there, before Ray waits for it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

NAMES_OF_REDIS = ("STORE_URL", "RAY_REDIS_ADDRESS")
_REDIS_PORT = 6379
_CONNECT_S = 3.0


def silent_stores(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each Redis that the environment names and that nobody answers at."""
    for name in NAMES_OF_REDIS:
        address = environment.get(name, "")
        if not address or address.startswith("sqlite"):
            continue
        place = urlsplit(address if "://" in address else f"redis://{address}")
        try:
            where = (place.hostname or "", place.port or _REDIS_PORT)
        except ValueError as error:
            yield f"{name} names no Redis: {error}."
            continue
        try:
            socket.create_connection(where, _CONNECT_S).close()
        except OSError as error:
            yield f"{name} names {where[0]}:{where[1]}, where no Redis answers: {error}."
