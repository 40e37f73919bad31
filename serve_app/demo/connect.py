"""The demo's connection to the running system: credentials, and a check of the policy."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from greenwave.client import (
    Addresses,
    Client,
    GreenwaveError,
    InvalidRequestError,
    NotFoundError,
    Shown,
    UnauthorizedError,
    UnavailableError,
    UnusableAnswerError,
)
from models.networks.network import network_of
from serve_app.errors import CommandError
from serve_app.identity.first_user import FIRST_USER, Credentials, known_credentials
from serve_app.processes.installation import edge_of, instance_of
from serve_app.settings import Settings

if TYPE_CHECKING:
    from lab.sim.scenario import Counts, Scenario


def addresses_of(port_base: int | None, url: str | None) -> Addresses:
    """Return where the services of an instance on this machine are, or of the system at a URL."""
    if url is not None:
        return Addresses.at(url)
    instance = instance_of(port_base)
    edge = edge_of(instance)
    if not instance.has_edge or edge.certificate:  # it names another host
        return Addresses.at(instance.front_url)
    return addresses_at(edge.urls())


def addresses_at(urls: Mapping[str, str]) -> Addresses:
    """Return where the services behind an edge are, from the URLs of its ports."""
    return Addresses(
        inference=urls["inference"],
        gateway=urls["gateway"],
        density=urls["density"],
        flow=urls["density"],
        accounts=urls["gateway"],
        loans=urls["loans"],
        cards=urls["cards"],
    )


def make_client(arguments: argparse.Namespace, addresses: Addresses) -> Client:
    """Return a client of the gateway, with a login."""
    return Client(addresses, *credentials_of(Settings.of_instance(arguments.port_base)))


def credentials_of(settings: Settings) -> Credentials:
    """Return the credentials of `make up`, or ask for them on the terminal.

    Raises:
        CommandError: there are no credentials and no terminal.
    """
    credentials = known_credentials(settings)
    if credentials is None and sys.stdin.isatty():
        username = input(f"User of the gateway [{FIRST_USER}]: ") or FIRST_USER
        credentials = Credentials(username, getpass.getpass("Password: "))
    if credentials is None:
        raise CommandError(
            f"There is no password in {settings.data_dir}. Start the system with `greenwave up` and"
            " the same --port-base, or set JWT_AUTH_USERNAME and JWT_AUTH_PASSWORD."
        )
    return credentials


def counts_for(client: Client, asked: Counts | None, url: str) -> Counts:
    """Return which vehicles the served policy was trained to count, or those asked for.

    Raises:
        CommandError: they differ.
    """
    try:
        served = client.inference.model_info().counts
    except GreenwaveError:  # only the gateway can be reached from here
        return asked or "standing"
    if asked not in (None, served):
        raise CommandError(
            f"The policy at {url} was trained with --counts {served}, but this run has --counts"
            f" {asked}. Leave it out."
        )
    return "all" if served == "all" else "standing"


def prepare(client: Client, run_id: str, scenario: Scenario, url: str) -> None:
    """Check that the policy is available for this network, and reset the run.

    Raises:
        CommandError: the service does not answer, is not healthy, serves another network, or
            refuses the login or the reset.
    """
    run = client.run(run_id)
    junction = next(iter(network_of(scenario.network).junctions.values()))
    shown = Shown(0, 0.0, [0.0] * junction.n_phases) if scenario.guarded else None
    try:
        status = client.gateway.health().status
        if status != "healthy":
            raise CommandError(f"The service at {url} is not ready: status {status}")
        run.act(junction.id, [0.0] * junction.obs_size, shown=shown)
        run.reset()
    except (InvalidRequestError, NotFoundError) as error:
        raise CommandError(
            f"The service at {url} refuses a request for this network: {error}. Name the city's"
            " gateway with --url, and add --safety if it has a safety layer."
        ) from error
    except UnauthorizedError as error:
        raise CommandError(
            f"The gateway at {url} refuses this user and password. Set JWT_AUTH_USERNAME and"
            " JWT_AUTH_PASSWORD to those of one of its users."
        ) from error
    except UnusableAnswerError as error:
        raise CommandError(f"The server at {url} is not Greenwave.") from error
    except UnavailableError as error:
        raise CommandError(
            f"No service answers at {url}. Start it with `greenwave up`. ({error})"
        ) from error
    except GreenwaveError as error:
        raise CommandError(f"The service at {url} refused: {error}") from error
