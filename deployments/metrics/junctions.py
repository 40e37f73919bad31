"""Junctions as labels of metrics: each is a time series of its own, and cities have thousands."""

from __future__ import annotations

from models.networks.network import Network

MAX_LABELLED = 500


def junction_labels(network: Network) -> tuple[str, ...]:
    """Return the label of each agent: its junction, or one for all where there are too many."""
    if network.n_agents <= MAX_LABELLED:
        return network.ids
    return ("all",) * network.n_agents
