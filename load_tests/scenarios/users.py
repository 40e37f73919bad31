"""Locust users, which load a system as controllers, simulators and people do."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Mapping
from typing import Any

from locust import FastHttpUser, between, constant, task

from models.networks.shipped import JUNCTIONS

PERIOD_S = 5.0  # of a controller's decisions
PAUSE_AFTER_FAILURE_S = 0.5
HOUR_S, MINUTE_S = 3600, 60
_FALLBACK = b'"fallback_mode '  # begins the status of a decision without the policy


class ServiceUser(FastHttpUser):
    """A user with its own connections, and a run of its own name.

    Users share a login, because the gateway limits logins by address.
    """

    abstract = True
    host = "http://unused"  # each request has its whole address

    def on_start(self) -> None:
        self.target = self.environment.target
        self.run = {"X-Simulation-Run": f"locust-{uuid.uuid4().hex[:12]}"}

    def ask(
        self,
        method: str,
        service: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request, which is counted by method and path; return the answer's JSON, if any.

        Args:
            service: of the addresses.
        """
        name, url = path.partition("?")[0], getattr(self.target.addresses, service) + path
        with self.client.request(
            method, url, name=name, json=body, headers=headers, catch_response=True
        ) as response:
            if response.status_code == 0 or response.status_code >= 400:
                code = (response.headers or {}).get("x-error-code", "")
                response.failure(f"status {response.status_code} {code}".strip())
                return None
            if _FALLBACK in response.content:
                response.failure("fallback of the gateway")
            return response.json() if response.content else None

    def login(self) -> dict[str, str]:
        """Return the headers of a request to the gateway: the shared token, and the run."""
        return {"Authorization": f"Bearer {self.target.token()}", **self.run}


class City(ServiceUser):
    """A city's five controllers behind the gateway, which each decide every five seconds.

    Cities start at random times. (Locust's ``constant_pacing`` counts from when a user was made, so
    users that were made together would ask together.)
    """

    weight = 5

    def on_start(self) -> None:
        super().on_start()
        self.ask("POST", "gateway", "/api/traffic/reset", headers=self.login())
        time.sleep(random.uniform(0, PERIOD_S))
        self.due = time.monotonic()

    def wait_time(self) -> float:
        self.due += PERIOD_S
        return max(0.0, self.due - time.monotonic())

    @task
    def decide(self) -> None:
        for junction in JUNCTIONS:
            body = {"junctionId": junction, "observations": observation(junction)}
            self.ask("POST", "gateway", "/api/traffic/action", body, self.login())


class Clerk(ServiceUser):
    """A clerk who creates a record of a random mobile number, reads, changes and deletes it.

    A number that has a record is left alone.
    """

    weight = 2
    wait_time = between(0.1, 1)

    @task
    def account(self) -> None:
        mobile = random_mobile_number()
        new = {"name": "Locust", "email": "locust@example.com", "mobileNumber": mobile}
        if self.ask("POST", "accounts", "/api/accounts", new):
            self._change("accounts", mobile, name="Locust the second")

    @task
    def loan(self) -> None:
        mobile = random_mobile_number()
        if self.ask("POST", "loans", f"/api/loans?mobileNumber={mobile}"):
            self._change("loans", mobile, amountPaid=1000)

    @task
    def card(self) -> None:
        mobile = random_mobile_number()
        if self.ask("POST", "cards", f"/api/cards?mobileNumber={mobile}"):
            self._change("cards", mobile, amountUsed=1000)

    def _change(self, kind: str, mobile: str, **changes: object) -> None:
        path = f"/api/{kind}?mobileNumber={mobile}"
        if record := self.ask("GET", kind, path):
            self.ask("PUT", kind, f"/api/{kind}", {**record, **changes})
        self.ask("DELETE", kind, path)


class Newcomer(ServiceUser):
    """A newcomer who asks for the gateway's health, logs in, and tries a decision."""

    weight = 1
    wait_time = between(10, 20)

    @task
    def look_around(self) -> None:
        self.ask("GET", "gateway", "/api/traffic/health")
        user = {"username": self.target.username, "password": self.target.password}
        if granted := self.ask("POST", "gateway", "/api/auth/login", user):
            headers = {"Authorization": f"Bearer {granted['accessToken']}", **self.run}
            self.ask("GET", "gateway", "/api/traffic/action", headers=headers)


class Planner(ServiceUser):
    """A planner who asks for forecasts of the density and of the flow."""

    weight = 2
    wait_time = between(0.5, 2)

    @task
    def density(self) -> None:
        hours = [[round(random.uniform(2, 40), 1) for _ in range(5)] for _ in range(3)]
        self.ask("POST", "density", "/density/predict", {"data": hours})

    @task
    def flow(self) -> None:
        start = int(time.time()) - HOUR_S
        samples = [
            {
                "timestamp": start + MINUTE_S * minute,
                "vehicle_count": random.randint(5, 25),
                "avg_speed": round(random.uniform(20, 45), 1),
                "occupancy": round(random.uniform(0.02, 0.1), 3),
            }
            for minute in range(60)
        ]
        junction = random.choice(list(JUNCTIONS))
        body = {"junction_id": junction, "historical_data": samples}
        self.ask("POST", "flow", "/flow/forecast", body)


class Simulator(ServiceUser):
    """A simulator with its own run, which steps all junctions in one call, without pause."""

    weight = 2
    wait_time = constant(0)

    def on_start(self) -> None:
        super().on_start()
        if token := os.environ.get("INFERENCE_TOKEN"):
            self.run |= {"Authorization": f"Bearer {token}"}

    @task(50)
    def predict(self) -> None:
        items = [{"junction_id": each, "obs_data": observation(each)} for each in JUNCTIONS]
        headers = {**self.run, "Idempotency-Key": uuid.uuid4().hex}
        if not self.ask("POST", "inference", "/predict_actions", {"items": items}, headers):
            # an unavailable system must not get thousands of requests a second
            time.sleep(PAUSE_AFTER_FAILURE_S)

    @task(1)
    def start_again(self) -> None:
        self.ask("POST", "inference", "/reset_hidden", headers=self.run)


class UnhurriedSimulator(Simulator):
    """A simulator that moves vehicles between two steps."""

    wait_time = between(0.1, 0.3)


def random_mobile_number() -> str:
    return f"{random.randrange(10**10):010}"


def observation(junction: str) -> list[float]:
    """Make up a plausible observation: first phase green, free to change, some queues."""
    phases, lanes = JUNCTIONS[junction].n_phases, JUNCTIONS[junction].n_lanes
    queues = [round(random.betavariate(1, 4), 2) for _ in range(lanes)]
    return [1.0] + [0.0] * (phases - 1) + [1.0] + queues
