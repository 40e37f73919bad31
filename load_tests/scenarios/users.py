"""Locust users, which load a system with the client that real controllers and simulators have."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import random
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from locust import User, between, constant, task
from locust.exception import StopUser

from greenwave.client import (
    Addresses,
    Client,
    GreenwaveError,
    InvalidRequestError,
    Retries,
    Sample,
    UnauthorizedError,
)
from greenwave.client.blocking import Connections
from greenwave.client.core.call import NoReply, Reply, Send
from load_tests.harness.wrk import wrk_command
from load_tests.scenarios.results import Classified, classify, read_log
from models.networks.shipped import JUNCTIONS

HOST = "http://127.0.0.1:8000"
PERIOD_S = 5.0  # of a controller's decisions
PAUSE_MS = 100
PAUSE_AFTER_FAILURE_S = 0.5
HOUR_S, MINUTE_S = 3600, 60
# One attempt for each request: further attempts would hide failures.
ONCE = Retries(attempts=1)
logger = logging.getLogger(__name__)


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
        milliseconds = (perf_counter() - started) * 1000
        path = "/" + send.url.partition("?")[0].split("/", 3)[3]
        classified = classify(outcome, may_be_refused=False)
        _report(self._request, send.method, path, milliseconds, classified)
        return outcome

    def close(self) -> None:
        """Close the connection of the user that calls this."""
        if hasattr(self._own, "connections"):
            self._own.connections.close()
            del self._own.connections


def _report(
    request: Any, method: str, path: str, milliseconds: float, classified: Classified
) -> None:
    request.fire(
        request_type=method,
        name=path + classified.suffix,
        response_time=milliseconds,
        response_length=0,
        exception=classified.failure,
        context={},
    )


_exchange = functools.cache(CountingExchange)


def _addresses_of(host: str) -> Addresses:
    if addresses := os.environ.get("LOAD_ADDRESSES"):
        return Addresses(**json.loads(addresses))
    return Addresses.of_edge("127.0.0.1") if host == HOST else Addresses.at(host)


def new_client(host: str, exchange: CountingExchange) -> Client:
    """Make a client with its own login."""
    return Client(
        _addresses_of(host),
        os.environ.get("JWT_AUTH_USERNAME", "operator"),
        os.environ.get("JWT_AUTH_PASSWORD") or "none was set",
        inference_token=os.environ.get("INFERENCE_TOKEN"),
        retries=ONCE,
        exchange=exchange,
    )


_shared_client = functools.cache(new_client)


class ClientUser(User):
    """A user with its own connection and a shared client.

    Users share the login, because the gateway limits logins by address. The client blocks, which is
    Locust's way: gevent lets other users run while one waits for an answer.

    Attributes:
        may_be_refused: whether ``overloaded`` is counted separately, or as a failure.
    """

    abstract = True
    host = HOST

    def on_start(self) -> None:
        self.exchange = _exchange(self.environment.events.request)
        self.client = _shared_client(self.host, self.exchange)
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
        try:
            self.run.reset()
        except UnauthorizedError as error:
            logger.error("Is JWT_AUTH_PASSWORD the right one? %s", error)
            self.environment.process_exit_code = 1
            self.environment.runner.quit()
            raise StopUser from error
        except GreenwaveError:
            pass  # it is counted
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
        newcomer = new_client(self.host, self.exchange)
        with contextlib.suppress(GreenwaveError):
            newcomer.gateway.health()
            newcomer.run(self.run_name).demo()


class PacedClient(User):
    """A connection of wrk with some ten predictions a second.

    On a machine that is overloaded, the times of Locust's own requests would be those of Locust.
    """

    host = HOST
    wait_time = constant(1)

    def on_start(self) -> None:
        with tempfile.NamedTemporaryFile("w", prefix="wrk-") as file:
            requests = ("predict", "runs=1000", f"pause_ms={PAUSE_MS}", "log=1")
            seconds = self.environment.parsed_options.run_time
            command = wrk_command(f"{self.host}/predict_action", 1, seconds, requests)
            self._wrk = subprocess.Popen(command, stdout=file)
            self._log = Path(file.name).open()  # noqa: SIM115

    @task
    def report(self) -> None:
        """Report the responses since the last call."""
        for milliseconds, outcome in read_log(self._log):
            classified = classify(outcome, may_be_refused=True)
            request = self.environment.events.request
            _report(request, "POST", "/predict_action", milliseconds, classified)

    def on_stop(self) -> None:
        self._wrk.kill()
        self._wrk.wait()
        self.report()
        self._log.close()


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
