"""Locust users, which load a system with the client that real controllers and simulators have."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import threading
import time
import uuid
from collections.abc import Callable
from time import perf_counter
from typing import Any

from locust import User, between, constant, task

from greenwave.client import (
    Client,
    GreenwaveError,
    InvalidRequestError,
    Retries,
    Sample,
)
from greenwave.client.blocking import Connections
from greenwave.client.core.call import NoReply, Reply, Send
from load_tests.scenarios.target import Target
from models.networks.shipped import JUNCTIONS

PERIOD_S = 5.0  # of a controller's decisions
PAUSE_AFTER_FAILURE_S = 0.5
HOUR_S, MINUTE_S = 3600, 60
# One attempt for each request: further attempts would hide failures.
ONCE = Retries(attempts=1)
_FALLBACK = b'"fallback_mode '  # begins the status of a decision without the policy


class CountingExchange:
    """Sends requests, and reports each to Locust's statistics by method and path.

    Args:
        request: Locust's event.
    """

    def __init__(self, request: Any) -> None:
        self._request = request
        self._own = threading.local()  # of a greenlet, since gevent has replaced threads

    def __call__(self, send: Send, /) -> Reply | NoReply:
        if not hasattr(self._own, "connections"):
            self._own.connections = Connections(1, None)
        started = perf_counter()
        outcome: Reply | NoReply = self._own.connections(send)
        self._request.fire(
            request_type=send.method,
            name="/" + send.url.partition("?")[0].split("/", 3)[3],
            response_time=(perf_counter() - started) * 1000,
            response_length=0,
            exception=failure_of(outcome),
            context={},
        )
        return outcome

    def close(self) -> None:
        """Close the connection of the user that calls this."""
        if hasattr(self._own, "connections"):
            self._own.connections.close()
            del self._own.connections


def failure_of(outcome: Reply | NoReply) -> Exception | None:
    """Return why a request counts as a failure; a fallback of the gateway is one."""
    if isinstance(outcome, NoReply):
        return ConnectionError(outcome.reason)
    if outcome.status >= 400:
        code = outcome.headers.get("x-error-code", "")
        return RuntimeError(f"status {outcome.status} {code}".strip())
    return RuntimeError("fallback of the gateway") if _FALLBACK in outcome.body else None


_exchange = functools.cache(CountingExchange)


def new_client(target: Target, exchange: CountingExchange) -> Client:
    """Make a client with its own login."""
    return Client(
        target.addresses,
        target.username,
        target.password,
        inference_token=os.environ.get("INFERENCE_TOKEN"),
        retries=ONCE,
        exchange=exchange,
    )


_shared_client = functools.cache(new_client)


class ClientUser(User):
    """A user with its own connection and a shared client.

    Users share the login, because the gateway limits logins by address. The client blocks, which is
    Locust's way: gevent lets other users run while one waits for an answer.
    """

    abstract = True

    def on_start(self) -> None:
        self.exchange = _exchange(self.environment.events.request)
        self.client = _shared_client(self.environment.target, self.exchange)
        self.run_name = f"locust-{uuid.uuid4().hex[:12]}"

    def on_stop(self) -> None:
        self.exchange.close()


class City(ClientUser):
    """A city's five controllers behind the gateway, which each decide every five seconds.

    Cities start at random times. (Locust's ``constant_pacing`` counts from when a user was made, so
    users that were made together would ask together.)
    """

    weight = 5

    def on_start(self) -> None:
        super().on_start()
        self.run = self.client.run(self.run_name)
        with contextlib.suppress(GreenwaveError):  # it is counted
            self.run.reset()
        time.sleep(random.uniform(0, PERIOD_S))
        self.due = time.monotonic()

    def wait_time(self) -> float:
        self.due += PERIOD_S
        return max(0.0, self.due - time.monotonic())

    @task
    def decide(self) -> None:
        for junction in JUNCTIONS:
            with contextlib.suppress(GreenwaveError):  # it is counted
                self.run.act(junction, observation(junction))


class Clerk(ClientUser):
    """A clerk who creates a record of a random mobile number, reads, changes and deletes it.

    A number that has a record is left alone.
    """

    weight = 2
    wait_time = between(0.1, 1)

    @task
    def account(self) -> None:
        accounts = self.client.accounts
        self._keep(
            accounts,
            lambda mobile: accounts.create("Locust", "locust@example.com", mobile),
            name="Locust the second",
        )

    @task
    def loan(self) -> None:
        self._keep(self.client.loans, self.client.loans.create, amount_paid=1000)

    @task
    def card(self) -> None:
        self._keep(self.client.cards, self.client.cards.create, amount_used=1000)

    def _keep(self, records: Any, create: Callable[[str], None], **change: object) -> None:
        mobile = f"{random.randrange(10**10):010}"
        with contextlib.suppress(GreenwaveError):
            try:
                create(mobile)
            except InvalidRequestError:
                return
            records.update(records.fetch(mobile).model_copy(update=change))
            records.delete(mobile)


class Newcomer(ClientUser):
    """A newcomer who asks for the gateway's health, logs in, and tries a decision."""

    weight = 1
    wait_time = between(10, 20)

    @task
    def look_around(self) -> None:
        newcomer = new_client(self.environment.target, self.exchange)
        with contextlib.suppress(GreenwaveError):
            newcomer.gateway.health()
            newcomer.run(self.run_name).demo()


class Planner(ClientUser):
    """A planner who asks for forecasts of the density and of the flow."""

    weight = 2
    wait_time = between(0.5, 2)

    @task
    def density(self) -> None:
        hours = [[round(random.uniform(2, 40), 1) for _ in range(5)] for _ in range(3)]
        with contextlib.suppress(GreenwaveError):
            self.client.density.predict(hours)

    @task
    def flow(self) -> None:
        start = int(time.time()) - HOUR_S
        samples = [
            Sample(
                timestamp=start + MINUTE_S * minute,
                vehicle_count=random.randint(5, 25),
                avg_speed=round(random.uniform(20, 45), 1),
                occupancy=round(random.uniform(0.02, 0.1), 3),
            )
            for minute in range(60)
        ]
        with contextlib.suppress(GreenwaveError):
            self.client.flow.forecast(random.choice(list(JUNCTIONS)), samples)


class Simulator(ClientUser):
    """A simulator with its own run, which steps all junctions in one call, without pause."""

    weight = 2
    wait_time = constant(0)

    def on_start(self) -> None:
        super().on_start()
        self.run = self.client.inference.run(self.run_name)

    @task(50)
    def predict(self) -> None:
        try:
            self.run.predict_many([(each, observation(each)) for each in JUNCTIONS])
        except GreenwaveError:
            # an unavailable system must not get thousands of requests a second
            time.sleep(PAUSE_AFTER_FAILURE_S)

    @task(1)
    def start_again(self) -> None:
        with contextlib.suppress(GreenwaveError):
            self.run.reset()


class UnhurriedSimulator(Simulator):
    """A simulator that moves vehicles between two steps."""

    wait_time = between(0.1, 0.3)


def observation(junction: str) -> list[float]:
    """Make up a plausible observation: first phase green, free to change, some queues."""
    phases, lanes = JUNCTIONS[junction].n_phases, JUNCTIONS[junction].n_lanes
    queues = [round(random.betavariate(1, 4), 2) for _ in range(lanes)]
    return [1.0] + [0.0] * (phases - 1) + [1.0] + queues
