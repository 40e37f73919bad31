"""The asynchronous client, which awaits what the engine asks for."""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import Protocol, Self, TypeVar

from greenwave.client.aio import groups
from greenwave.client.aio.connections import Connections
from greenwave.client.calls.forecasts import DensityCalls, FlowCalls
from greenwave.client.calls.gateway import GatewayCalls, RunCalls
from greenwave.client.calls.inference import InferenceCalls
from greenwave.client.calls.records import AccountCalls, CardCalls, LoanCalls
from greenwave.client.core.call import Call, NoReply, Outcome, Pause, Reply, Send, Steps
from greenwave.client.core.engine import CallEngine
from greenwave.client.core.login import make_bearer, make_login
from greenwave.client.errors import InvalidInputError
from greenwave.client.settings import CONNECTIONS, RETRIES, TIMEOUTS, Addresses, Retries, Timeouts

Result = TypeVar("Result")


class Exchange(Protocol):
    """Sends a request."""

    async def __call__(self, send: Send, /) -> Reply | NoReply: ...

    async def close(self) -> None: ...


class AsyncClient:
    """A client of a running system. Tasks of one event loop can share it; ``async with`` closes it.

    Args:
        url: of the system, or the addresses of its services.
        username, password: for the gateway; the other services need none.
        token: of a service account, instead of username and password.
        inference_token: for the inference service itself, if it requires one.
        connections: the most that are open; further calls wait for one, within their time.
        tls: for https; by default, certificates are checked against the usual authorities.
        exchange: sends the requests, instead of connections of the client.

    Raises:
        InvalidInputError: an address is invalid, or a login is incomplete or ambiguous.
    """

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
        exchange: Exchange | None = None,
    ) -> None:
        self._addresses = at = url if isinstance(url, Addresses) else Addresses.at(url)
        login = make_login(at.gateway, username, password, token)
        self._engine = CallEngine(timeouts, retries, login)
        self._exchange = exchange or Connections(connections, tls)
        self._exclusive = asyncio.Lock()
        self._closed = False
        self.gateway = groups.Gateway(self._perform, GatewayCalls(at.gateway))
        bearer = make_bearer(inference_token)
        self.inference = groups.Inference(self._perform, InferenceCalls(at.inference, bearer))
        self.density = groups.Density(self._perform, DensityCalls(at.density))
        self.flow = groups.Flow(self._perform, FlowCalls(at.flow))
        self.accounts = groups.Accounts(self._perform, AccountCalls(at.accounts))
        self.loans = groups.Loans(self._perform, LoanCalls(at.loans))
        self.cards = groups.Cards(self._perform, CardCalls(at.cards))

    def run(self, name: str | None = None) -> groups.Run:
        """Return the calls of the gateway for one simulation run."""
        return groups.Run(self._perform, RunCalls(self._addresses.gateway, name))

    async def close(self) -> None:
        """Close the connections; later calls raise InvalidInputError."""
        self._closed = True
        await self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _perform(self, call: Call[Result], /) -> Result:
        if self._closed:
            raise InvalidInputError("The client is closed", call=str(call))
        return await self._run(self._engine.perform(call))

    async def _run(self, steps: Steps[Result]) -> Result:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: Result = done.value
                return result
            match step:
                case Send():
                    outcome = await self._exchange(step)
                case Pause():
                    await asyncio.sleep(step.seconds)
                    outcome = None
                case _:
                    outcome = await self._run_exclusively(step.steps, step.timeout_s)

    async def _run_exclusively(self, steps: Steps[str], timeout_s: float) -> str | None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._exclusive.acquire()
        except TimeoutError:
            return None
        try:
            return await self._run(steps)
        finally:
            self._exclusive.release()
