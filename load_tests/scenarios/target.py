"""The system that is loaded."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from greenwave.client import Addresses, Client, GreenwaveError, InvalidInputError, UnauthorizedError
from load_tests.scenarios.gates import LoadTestError
from serve_app.cli.hints import make_command
from serve_app.demo.connect import addresses_of
from serve_app.identity.first_user import known_credentials
from serve_app.processes.installation import instance_of
from serve_app.processes.instance import Instance
from serve_app.settings import Settings


@dataclass(frozen=True)
class LoadTarget:
    """The addresses of a system, and the user who logs in there.

    Attributes:
        instance: whose processes are sampled, if they are on this machine.
    """

    addresses: Addresses
    username: str
    password: str
    instance: Instance

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for the users of load tests."""
        return {
            "LOAD_ADDRESSES": json.dumps(asdict(self.addresses)),
            "JWT_AUTH_USERNAME": self.username,
            "JWT_AUTH_PASSWORD": self.password,
        }

    @property
    def url(self) -> str:
        """The URL of the inference service."""
        return self.addresses.inference

    def check(self) -> None:
        """Check that the system answers, and accepts this user.

        Raises:
            LoadTestError: it does not.
        """
        try:
            with Client(self.addresses, self.username, self.password) as client:
                client.run("locust-check").reset()
        except UnauthorizedError as error:
            raise LoadTestError(
                f"The gateway at {self.addresses.gateway} refuses this user and password. Set"
                " JWT_AUTH_USERNAME and JWT_AUTH_PASSWORD to those of one of its users."
            ) from error
        except GreenwaveError as error:
            raise LoadTestError(
                f"No system is ready at {self.addresses.gateway}: {error}."
            ) from error

    def check_processes(self) -> None:
        """Check that the system's processes are on this machine.

        Raises:
            LoadTestError: none of them is.
        """
        if not self.instance.processes():
            raise LoadTestError(
                "Memory can be sampled only on the machine of the system, and no process of it is"
                f" here. Set --port-base or DATA_DIR to those of the system at {self.url};"
                f" {self.instance.data_dir} is of another one."
            )


def find_target(port_base: int | None, url: str | None) -> LoadTarget:
    """Find the system that ``make up`` has started, or the one at a URL.

    Raises:
        LoadTestError: no user name and password are known, or the URL is not one.
    """
    instance = instance_of(port_base)
    credentials = known_credentials(Settings.of_instance(port_base))
    if credentials is None:
        raise LoadTestError(
            f"No password is known: {instance.data_dir} has none. Start a system with"
            f" `{make_command('up', port_base)}`, or set JWT_AUTH_USERNAME and JWT_AUTH_PASSWORD."
        )
    try:
        return LoadTarget(addresses_of(port_base, url), *credentials, instance)
    except InvalidInputError as error:
        raise LoadTestError(f"{error}.") from error
