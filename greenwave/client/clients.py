"""The two kinds of clients: their arguments, the services that they call, and their ends."""

from __future__ import annotations

import asyncio
import ssl
import threading
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from greenwave.client.call import Call, Exchange
from greenwave.client.connections import Connections
from greenwave.client.engine import CallEngine
from greenwave.client.errors import InvalidInputError
from greenwave.client.forecasts import Density, Flow
from greenwave.client.gateway import Gateway, Run
from greenwave.client.inference import Inference
from greenwave.client.inputs import run_headers, text
from greenwave.client.login import Login, make_bearer
from greenwave.client.records import Accounts, Cards, Loans
from greenwave.client.service import Asynchronous, Blocking, Mode
from greenwave.client.settings import CONNECTIONS, RETRIES, TIMEOUTS, Addresses, Retries, Timeouts

Result = TypeVar("Result")


class BaseClient(ABC, Generic[Mode]):
    """A client of a running system."""

    def __init__(
        self,
        url: str | Addresses,
        username: str | None = None,
        password: str | None = None,
        *,
        token: str | None = None,
        inference_token: str | None = None,
        timeouts: Timeouts = TIMEOUTS,
        retries: Retries = RETRIES,
        connections: int = CONNECTIONS,
        tls: ssl.SSLContext | None = None,
        unix_socket: str | Path | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        """Make a client, which connects with its first call.

        Args:
            url: of the services that are called, or the addresses of each.
            username, password: for the gateway; the other services need none.
            token: of a service account, instead of username and password.
            inference_token: for the inference service itself, if it requires one.
            connections: the most that are open; further calls wait for one, within their time.
            tls: for https; by default, certificates are checked against the usual authorities.
            unix_socket: of the inference service on this machine, for all connections; the url,
                such as ``http://localhost``, then only names the host in requests.
            exchange: sends the requests, instead of connections of the client.

        Raises:
            InvalidInputError: an address is invalid, or a login is incomplete or ambiguous.
        """
        self._addresses = at = url if isinstance(url, Addresses) else Addresses.at(url)
        login = None
        if username is not None or password is not None:
            if token is not None:
                raise InvalidInputError("Give a token, or a username and a password, not both")
            login = Login(at.gateway, text(username, "username"), text(password, "password"))
        self._bearer = make_bearer(token, "token", "what `greenwave tokens create` has written")
        origin = "INFERENCE_TOKEN of the service"
        inference_bearer = make_bearer(inference_token, "inference_token", origin)
        path = None if unix_socket is None else str(unix_socket)
        self._exchange: Exchange = exchange or Connections(connections, tls, path)
        self._engine = CallEngine(self._exchange, timeouts, retries, login)
        self._closed = False
        self._open()
        perform = self._perform
        self.gateway: Gateway[Mode] = Gateway(perform, at.gateway)
        self.inference: Inference[Mode] = Inference(perform, at.inference, inference_bearer)
        self.density: Density[Mode] = Density(perform, at.density)
        self.flow: Flow[Mode] = Flow(perform, at.flow)
        self.accounts: Accounts[Mode] = Accounts(perform, at.accounts)
        self.loans: Loans[Mode] = Loans(perform, at.loans)
        self.cards: Cards[Mode] = Cards(perform, at.cards)

    def run(self, name: str | None = None) -> Run[Mode]:
        """Return the calls of the gateway for one simulation run.

        Args:
            name: 1 to 64 of ``A-Z a-z 0-9 . _ : -``; None for the run ``default``.
        """
        headers = {**self._bearer, **run_headers(name)}
        return Run(self._perform, self._addresses.gateway, headers)

    def _open(self) -> None:
        """Begin what performs calls."""

    def _check_open(self, call: Call[Any]) -> None:
        if self._closed:
            raise InvalidInputError("The client is closed", call=str(call))

    @abstractmethod
    def _perform(self, call: Call[Any], /) -> Any:
        """Perform a call."""


class AsyncClient(BaseClient[Asynchronous]):
    """A client for an event loop, whose tasks can share it; ``async with`` closes it."""

    async def close(self) -> None:
        """Close the connections; later calls raise InvalidInputError."""
        self._closed = True
        await self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _perform(self, call: Call[Result], /) -> Result:
        self._check_open(call)
        return await self._engine.complete(call)


class Client(BaseClient[Blocking]):
    """A blocking client of a running system. Threads can share it; ``with`` closes it.

    An event loop in a background thread performs the calls.
    """

    def _open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # so that the loop ends after the calls that were begun
        self._thread = threading.Thread(
            target=_serve, args=[self._loop], name="greenwave-client", daemon=True
        )
        self._thread.start()
        # also for a client that is not closed, at the end of the program at the latest
        self._end = weakref.finalize(self, _end, self._loop, self._thread, self._exchange)

    def close(self) -> None:
        """Close the connections; later calls raise InvalidInputError."""
        with self._lock:
            self._closed = True
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _perform(self, call: Call[Result], /) -> Result:
        with self._lock:
            self._closed |= not self._thread.is_alive()  # as in a forked process
            self._check_open(call)
            done = asyncio.run_coroutine_threadsafe(self._engine.complete(call), self._loop)
        try:
            return done.result()
        except BaseException:  # such as Ctrl-C
            done.cancel()
            raise


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, exchange: Exchange) -> None:
    async def end() -> None:
        if calls := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(calls)
        await exchange.close()
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
    if threading.current_thread() is not thread:  # which may collect garbage
        thread.join()
