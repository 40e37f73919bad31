"""Newcomers, who log in and look around."""

from __future__ import annotations

import contextlib
import uuid

from locust import between, task

from greenwave.client import GreenwaveError
from load_tests.client_user import ClientUser, new_client


class Newcomer(ClientUser):
    """Asks how the gateway is, logs in as for the first time, and tries a decision."""

    weight = 1
    wait_time = between(10, 20)

    @task
    def look_around(self) -> None:
        newcomer = new_client(self.host, self.exchange)
        with contextlib.suppress(GreenwaveError):
            newcomer.gateway.health()
            newcomer.run(f"locust-{uuid.uuid4().hex[:12]}").demo()
