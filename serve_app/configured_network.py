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


def configured_network(named: Path | None) -> Network:
    """Return the network, without what only drawing and simulating need.

    Args:
        named: file that an application names; without, ``NETWORK_PATH`` does, or nothing.

    Raises:
        InvalidNetworkError: the file cannot be read or is no network.
    """
    path = named or Settings().network_path
    return SHIPPED if path is None else replace(read_network(resolved(path)), file=None)
