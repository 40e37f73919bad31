"""The client for threads: what there is to do, it does by blocking."""

from __future__ import annotations

import ssl
import threading
import time
from types import TracebackType
from typing import Protocol, Self, TypeVar

from greenwave.client.blocking import groups
from greenwave.client.blocking.connections import Connections
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
    """Sends requests."""

    def __call__(self, send: Send, /) -> Reply | NoReply: ...

    def close(self) -> None: ...


class Client:
    """Calls a running system. Threads may share it; ``with`` closes it.

    Args:
        url: of the system, or the addresses of its services.
        username, password: for the gateway; all others do without.
        token: of a service account, in their place.
        inference_token: for the inference service itself, where it asks for one.
        connections: open at most; more calls wait for one, within their time.
        tls: for https; by default, certificates are checked against the well-known authorities.
        exchange: sends the requests in place of connections of its own.

    Raises:
        InvalidInputError: no such address, a user name without a password, or with a token.
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
        self._performer = CallEngine(timeouts, retries, login)
        self._exchange = exchange or Connections(connections, tls)
        self._alone = threading.Lock()
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
        """Return the decisions of a simulation run, by the gateway."""
        return groups.Run(self._perform, RunCalls(self._addresses.gateway, name))

    def close(self) -> None:
        """Close the connections; no call is possible any more."""
        self._closed = True
        self._exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _perform(self, call: Call[Result], /) -> Result:
        if self._closed:
            raise InvalidInputError("This client is closed", call=str(call))
        return self._do(self._performer.perform(call))

    def _do(self, things: Steps[Result]) -> Result:
        outcome: Outcome = None
        while True:
            try:
                thing = things.send(outcome)
            except StopIteration as done:
                result: Result = done.value
                return result
            match thing:
                case Send():
                    outcome = self._exchange(thing)
                case Pause():
                    time.sleep(thing.seconds)
                    outcome = None
                case _:
                    outcome = self._do_alone(thing.things, thing.timeout_s)

    def _do_alone(self, things: Steps[str], timeout_s: float) -> str | None:
        if not self._alone.acquire(timeout=timeout_s):
            return None
        try:
            return self._do(things)
        finally:
            self._alone.release()
