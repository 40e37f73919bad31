"""Clerks, who keep customer records."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

from locust import between, task

from greenwave.client import GreenwaveError, InvalidRequestError
from load_tests.client_user import ClientUser


class Clerk(ClientUser):
    """Creates a record of a random mobile number, looks at it, changes it, deletes it.

    A number that has one is somebody else's, and left alone.
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
