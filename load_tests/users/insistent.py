"""Clients in a crowd."""

from __future__ import annotations

import random
import time
import uuid

from locust import between, task

from greenwave.client import GreenwaveError
from load_tests.client_user import ClientUser
from load_tests.users.observations import observation
from models.networks.shipped import JUNCTIONS


class Insistent(ClientUser):
    """Asks for some ten predictions a second; when refused, again as soon as it was told to."""

    wait_time = between(0.05, 0.15)
    may_be_refused = True

    def on_start(self) -> None:
        super().on_start()
        self.run = self.client.inference.run(f"locust-{uuid.uuid4().hex[:12]}")

    @task
    def predict(self) -> None:
        junction = random.choice(list(JUNCTIONS))
        try:
            self.run.predict(junction, observation(junction))
        except GreenwaveError as error:
            time.sleep((error.retry_after_s or 1) * random.uniform(1, 2))
