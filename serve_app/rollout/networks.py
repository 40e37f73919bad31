"""The road network that an application of a serve config is for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.networks.network import Network
from serve_app.configured_network import configured_network


def network_of(application: Mapping[str, Any]) -> Network:
    """Return the network that the application names in its arguments or its environment.

    Raises:
        InvalidNetworkError: its file cannot be read or is no network.
    """
    variables = (application.get("runtime_env") or {}).get("env_vars") or {}
    named = (application.get("args") or {}).get("network") or variables.get("NETWORK_PATH")
    return configured_network(Path(named) if named else None)


def network_at_root(config: Mapping[str, Any]) -> Network:
    """Return the network of the application whose place is ``/``.

    Raises:
        InvalidNetworkError: its file cannot be read or is no network.
    """
    at_root = [each for each in config["applications"] if each.get("route_prefix", "/") == "/"]
    return network_of(at_root[0] if at_root else {})
