"""Placement of state actors: they are spread over the nodes, and again when a node has joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import ray

from deployments.ray_private.core import read_actor_places


def choose_node(shard: int, nodes: Collection[str], taken: Collection[str]) -> str | None:
    """Return one of the nodes with the fewest state actors, None if there is no node.

    Actors that are created at the same moment, unaware of each other, get different ones.

    Args:
        taken: the node of each existing state actor.
    """
    n_actors = Counter(taken)
    fewest = min((n_actors[node] for node in nodes), default=0)
    free = sorted(node for node in nodes if n_actors[node] == fewest)
    return free[shard % len(free)] if free else None


def is_misplaced(name: str, places: Mapping[str, str], nodes: Collection[str]) -> bool:
    """Return whether this one of several state actors should move.

    It should if its node is not for state actors, or if it is the one to leave a node that has two
    more than another.

    Args:
        places: the node of each actor by name.
        nodes: those that state actors may be on.
    """
    here = places.get(name)
    if here is None or not nodes:
        return False
    n_actors = Counter(places.values())
    crowded = n_actors[here] - min(n_actors[node] for node in nodes) > 1
    leaves = name == max(each for each, node in places.items() if node == here)
    return leaves and (crowded or here not in nodes)


def serving_nodes() -> list[str]:
    """Return the living nodes that have CPUs. The head may have none, so that it serves nothing."""
    return [
        node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")
    ]


def read_places(prefix: str) -> dict[str, str]:
    """Return the node of each living actor whose name begins with ``prefix``."""
    places = read_actor_places()
    return {name: node for name, node in places.items() if name.startswith(prefix)}
