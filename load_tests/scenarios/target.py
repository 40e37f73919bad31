"""The system that is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx
import psutil

from greenwave.client import Addresses, InvalidInputError
from serve_app.cli.hints import greenwave_command
from serve_app.demo.connect import addresses_of
from serve_app.identity.first_user import known_credentials
from serve_app.processes.installation import instance_of
from serve_app.settings import Settings


class LoadTestError(Exception):
    """A load test is not possible; the message says why and what to do."""


@dataclass
class Target:
    """The addresses of a system, and the user who logs in there.

    Attributes:
        processes: finds those of the system, if they are on this machine.
    """

    addresses: Addresses
    username: str
    password: str
    processes: Callable[[], Sequence[psutil.Process]]
    _token: str = ""
    _renew_at: float = 0.0

    def token(self) -> str:
        """Return a token of the gateway, from one login for half of its life.

        Raises:
            LoadTestError: the system does not answer, or refuses this user.
        """
        if time.monotonic() >= self._renew_at:
            gateway = self.addresses.gateway
            user = {"username": self.username, "password": self.password}
            try:
                answer = httpx.post(f"{gateway}/api/auth/login", json=user, timeout=10)
                if answer.status_code == 401:
                    raise LoadTestError(
                        f"The gateway at {gateway} refuses this user and password. Set"
                        " JWT_AUTH_USERNAME and JWT_AUTH_PASSWORD to those of one of its users."
                    )
                granted = answer.raise_for_status().json()
            except httpx.HTTPError as error:
                raise LoadTestError(f"No system is ready at {gateway}: {error}.") from error
            self._token = granted["accessToken"]
            self._renew_at = time.monotonic() + granted["expiresIn"] / 2
        return self._token


def find_target(port_base: int | None, url: str | None) -> Target:
    """Find the system that ``make up`` has started, or the one at a URL.

    Raises:
        LoadTestError: no user name and password are known, or the URL is not one.
    """
    instance = instance_of(port_base)
    credentials = known_credentials(Settings.of_instance(port_base))
    if credentials is None:
        raise LoadTestError(
            f"No password is known: {instance.data_dir} has none. Start a system with"
            f" `{greenwave_command('up', port_base)}`, or set JWT_AUTH_USERNAME and"
            " JWT_AUTH_PASSWORD."
        )
    try:
        return Target(addresses_of(port_base, url), *credentials, instance.processes)
    except InvalidInputError as error:
        raise LoadTestError(f"{error}.") from error
