"""The controllers of a city."""

from __future__ import annotations

import contextlib
import logging
import random
import time
import uuid

from locust import task
from locust.exception import StopUser

from greenwave.client import GreenwaveError, UnauthorizedError
from load_tests.client_user import ClientUser
from load_tests.users.observations import observation
from models.networks.shipped import JUNCTIONS

PERIOD_S = 5.0

logger = logging.getLogger(__name__)


class City(ClientUser):
    """A city's five controllers behind the gateway, a decision each every five seconds.

    Cities start when they like, and keep no time with each other. (Locust's ``constant_pacing``
    counts from when a user was made, so all that were made together would ask together.)
    """

    weight = 5

    def on_start(self) -> None:
        super().on_start()
        self.run = self.client.run(f"locust-{uuid.uuid4().hex[:12]}")
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
