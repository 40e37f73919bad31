"""The road network of an application, as its arguments or the environment name it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from models.junctions import SHIPPED
from models.networks.network import Network, read_network
from serve_app.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


def resolved(path: Path) -> Path:
    """Return a path of a serve config: replicas have working folders of their own."""
    return ROOT / path


def configured_network(named: Path | None, *, whole: bool = False) -> Network:
    """Return the network.

    Args:
        named: file that an application names; without, ``NETWORK_PATH`` does, or nothing.
        whole: with what is in its file besides; who only serves a policy needs none of it.

    Raises:
        InvalidNetworkError: the file cannot be read or is no network.
    """
    path = named or Settings().network_path
    if path is None:
        return SHIPPED
    network = read_network(resolved(path))
    return network if whole else replace(network, file=None)
