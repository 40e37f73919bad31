"""Locust users that load a system by the client that real controllers and simulators have."""

from __future__ import annotations

import functools
import os
import threading
from time import perf_counter
from typing import Any

from locust import User

from greenwave.client import Client, Retries
from greenwave.client.blocking.connections import Connections
from greenwave.client.core.call import NoReply, Reply, Send
from load_tests.run.outcomes import Told, tell

# Each request is counted as it went; an attempt after a failed one would only show fewer failures
# than there are.
ONCE = Retries(attempts=1)


class ClientUser(User):
    """A user with a connection of their own, and the client that they share.

    They share its login, too: the gateway bounds how many there may be from one address. Blocking
    is Locust's way: gevent lets the other users run while one waits for an answer.

    Attributes:
        may_be_refused: whether ``overloaded`` is an answer like others, counted by itself, or a
            failure.
    """

    abstract = True
    host = "http://127.0.0.1:8000"
    may_be_refused = False

    def on_start(self) -> None:
        self.exchange = _exchange(self.environment.events.request, self.may_be_refused)
        self.client = _shared_client(self.host, self.exchange)

    def on_stop(self) -> None:
        self.exchange.close()


class Counted:
    """Sends requests, and tells Locust's statistics of each, by method and path.

    Args:
        request: Locust's event.
    """

    def __init__(self, request: Any, may_be_refused: bool) -> None:
        self._request = request
        self._may_be_refused = may_be_refused
        self._own = threading.local()  # a greenlet's, since gevent has taken the place of threads

    def __call__(self, send: Send, /) -> Reply | NoReply:
        if not hasattr(self._own, "connections"):
            self._own.connections = Connections(1, None)
        started = perf_counter()
        outcome: Reply | NoReply = self._own.connections(send)
        milliseconds = (perf_counter() - started) * 1000
        path = "/" + send.url.partition("?")[0].split("/", 3)[3]
        told: Told = tell(outcome, self._may_be_refused)
        self._request.fire(
            request_type=send.method,
            name=path + told.suffix,
            response_time=milliseconds,
            response_length=len(outcome.body) if isinstance(outcome, Reply) else 0,
            exception=told.failure,
            context={},
        )
        return outcome

    def close(self) -> None:
        """Close the connection of the user that asks for it."""
        if hasattr(self._own, "connections"):
            self._own.connections.close()
            del self._own.connections


@functools.cache
def _exchange(request: Any, may_be_refused: bool) -> Counted:
    return Counted(request, may_be_refused)


def new_client(host: str, exchange: Counted) -> Client:
    """Make a client with a login of its own."""
    return Client(
        host,
        os.environ.get("JWT_AUTH_USERNAME", "operator"),
        os.environ.get("JWT_AUTH_PASSWORD") or "none was set",
        inference_token=os.environ.get("INFERENCE_TOKEN"),
        retries=ONCE,
        exchange=exchange,
    )


_shared_client = functools.cache(new_client)
