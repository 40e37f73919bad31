"""The road network of an application, as its arguments or the environment name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.networks.network import Network, read_network
from models.networks.shipped import SHIPPED
from serve_app.errors import ROOT
from serve_app.settings import Settings, variables_of


def resolved(path: Path) -> Path:
    """Return a path of a serve config: replicas have other working folders."""
    return ROOT / path


def configured_network(named: Path | None, *, whole: bool = False) -> Network:
    """Return the network.

    Args:
        named: file that an application names; by default that of ``NETWORK_PATH``, if any.
        whole: with everything else in its file, which a policy does not need.

    Raises:
        InvalidNetworkError: the file cannot be read, or is not a network.
    """
    path = named or Settings().network_path
    if path is None:
        return SHIPPED
    network = read_network(resolved(path))
    return network if whole else replace(network, file=None)


def network_of(application: Mapping[str, Any], *, whole: bool = False) -> Network:
    """Return the network that an application of a serve config names.

    Args:
        whole: see :func:`configured_network`.

    Raises:
        InvalidNetworkError: its file cannot be read, or is not a network.
    """
    variable = variables_of(application).get("NETWORK_PATH")
    named = (application.get("args") or {}).get("network") or variable
    return configured_network(Path(named) if named else None, whole=whole)


def network_at_root(config: Mapping[str, Any]) -> Network:
    """Return the network of the application at the route ``/``.

    Raises:
        InvalidNetworkError: its file cannot be read, or is not a network.
    """
    at_root = [each for each in config["applications"] if each.get("route_prefix", "/") == "/"]
    return network_of(at_root[0] if at_root else {})
