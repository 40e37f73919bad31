"""Simulators, which ask the inference service itself."""

from __future__ import annotations

import contextlib
import time
import uuid

from locust import between, constant, task

from greenwave.client import GreenwaveError
from load_tests.client_user import ClientUser
from load_tests.users.observations import observation
from models.networks.shipped import JUNCTIONS

FAILED_S = 0.5  # so that a system that is away is not asked thousands of times a second


class Simulator(ClientUser):
    """A simulator with a run of its own, which asks for all its junctions at once, and at once for
    their next step."""

    weight = 2
    wait_time = constant(0)

    def on_start(self) -> None:
        super().on_start()
        self.run = self.client.inference.run(f"locust-{uuid.uuid4().hex[:12]}")

    @task(50)
    def predict(self) -> None:
        try:
            self.run.predict_many([(each, observation(each)) for each in JUNCTIONS])
        except GreenwaveError:
            time.sleep(FAILED_S)

    @task(1)
    def start_again(self) -> None:
        with contextlib.suppress(GreenwaveError):
            self.run.reset()


class UnhurriedSimulator(Simulator):
    """A simulator that moves vehicles between two steps."""

    wait_time = between(0.1, 0.3)
