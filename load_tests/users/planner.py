"""Planners, who ask for forecasts."""

from __future__ import annotations

import contextlib
import random
import time

from locust import between, task

from greenwave.client import GreenwaveError, Sample
from load_tests.client_user import ClientUser
from models.networks.shipped import JUNCTIONS

HOUR_S, MINUTE_S = 3600, 60


class Planner(ClientUser):
    """Asks for forecasts of the density and of the flow."""

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
