"""Load with the journeys of real clients, mixed; for wrk's exact figures see the benchmarks.

With the system up (the gateway's password is printed by `make up`, once):

    JWT_AUTH_PASSWORD=... make load                      # web page on http://localhost:8089
    JWT_AUTH_PASSWORD=... make load ARGS="--headless -u 50 -r 10 -t 1m"

A system at other ports: --host http://127.0.0.1:23000. The clerks create loans of random mobile
numbers and delete them again; a number that has a loan is left alone.
"""

from __future__ import annotations

import logging
import os
import random
import time
import uuid
from typing import Any

from locust import FastHttpUser, between, constant_pacing, task
from locust.exception import StopUser

from models.junctions import JUNCTIONS

HOUR_S, MINUTE_S = 3600, 60

logger = logging.getLogger(__name__)


def observation(junction: str) -> list[float]:
    """Make up a plausible observation: first phase green, free to change, some queues."""
    phases, lanes = JUNCTIONS[junction].n_phases, JUNCTIONS[junction].n_lanes
    queues = [round(random.betavariate(1, 4), 2) for _ in range(lanes)]
    return [1.0] + [0.0] * (phases - 1) + [1.0] + queues


class Controller(FastHttpUser):
    """A city's five controllers behind the gateway, a decision each every five seconds."""

    host = "http://127.0.0.1:8000"
    weight = 5
    wait_time = constant_pacing(5)

    def on_start(self) -> None:
        user = os.environ.get("JWT_AUTH_USERNAME", "operator")
        password = os.environ.get("JWT_AUTH_PASSWORD", "")
        answer = self.client.post("/api/auth/login", json={"username": user, "password": password})
        if answer.status_code != 200:
            logger.error("The login failed; is JWT_AUTH_PASSWORD set, and the system up?")
            self.environment.process_exit_code = 1
            self.environment.runner.quit()
            raise StopUser
        token = answer.json()["accessToken"]
        run = f"locust-{uuid.uuid4().hex[:12]}"
        self.headers = {"Authorization": f"Bearer {token}", "X-Simulation-Run": run}

    @task
    def decide(self) -> None:
        for junction in JUNCTIONS:
            body = {"junctionId": junction, "observations": observation(junction)}
            self.client.post("/api/traffic/action", json=body, headers=self.headers)


class Simulator(FastHttpUser):
    """A simulator that asks the inference service for all junctions at once, as fast as it can."""

    host = "http://127.0.0.1:8000"
    weight = 2
    wait_time = between(0.01, 0.1)

    def on_start(self) -> None:
        self.run = f"locust-{uuid.uuid4().hex[:12]}"

    @task(20)
    def predict(self) -> None:
        items = [{"junction_id": each, "obs_data": observation(each)} for each in JUNCTIONS]
        self.client.post("/predict_actions", json={"run_id": self.run, "items": items})

    @task(1)
    def start_again(self) -> None:
        self.client.post("/reset_hidden", json={"run_id": self.run})


class Planner(FastHttpUser):
    """Asks for forecasts."""

    host = "http://127.0.0.1:8000"
    weight = 1
    wait_time = between(0.5, 2)

    @task
    def density(self) -> None:
        hours = [[round(random.uniform(2, 40), 1) for _ in range(5)] for _ in range(3)]
        self.client.post("/density/predict", json={"data": hours})

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
        body = {"junction_id": random.choice(list(JUNCTIONS)), "historical_data": samples}
        self.client.post("/flow/forecast", json=body)


class Clerk(FastHttpUser):
    """Opens a loan, looks at it, changes it, closes it."""

    host = "http://127.0.0.1:8000"
    weight = 2
    wait_time = between(0.1, 1)

    @task
    def loan(self) -> None:
        number = f"{random.randrange(10**10):010}"
        query: dict[str, Any] = {"params": {"mobileNumber": number}, "name": "/api/loans"}
        if self.client.post("/api/loans", **query).status_code != 201:
            return  # somebody else's
        loan = self.client.get("/api/loans", **query).json()
        self.client.put("/api/loans", json=loan | {"amountPaid": 1000})
        self.client.delete("/api/loans", **query)
