"""Whether a cluster has what a serve config needs: Ray lets what does not fit wait for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from serve_app import ray_dashboard
from serve_app.rollout.resources import Config, least, megabytes_of_ray, most, scales, surge

_REMEDY = "add nodes, or lower min_replicas, num_replicas or num_cpus"
_ANY = 0.001  # a head with --num-cpus=0 is no place for replicas
_MB = 1 << 20


class Node(NamedTuple):
    """What Ray counts out on a node: CPUs, and megabytes that were free when it was started."""

    cpus: float
    megabytes: float


def nodes_of(dashboard_url: str) -> list[Node]:
    """Return the living nodes of a cluster.

    Raises:
        httpx.HTTPError: it does not answer.
    """
    answer = ray_dashboard.get(dashboard_url, ray_dashboard.NODES, timeout_s=10.0)
    nodes = answer.raise_for_status().json()["data"]["result"]["result"]
    alive = (each["resources_total"] for each in nodes if each["state"] == "ALIVE")
    return [Node(each.get("CPU", 0.0), each.get("memory", 0.0) / _MB) for each in alive]


def this_machine() -> Node:
    """Return what a Ray that is started now will find here."""
    from deployments.ray_private.core import available_cpus, available_memory

    return Node(available_cpus(), available_memory() / _MB)


def misfit(config: Config, nodes: Sequence[Node]) -> str | None:
    """Return one sentence when not even the least number of replicas finds a place."""
    need, extra = least(config), surge(config)
    cpus = round(need.cpus + extra.cpus, 3)
    if cpus > sum(node.cpus for node in nodes):
        parts = f" ({need.cpus:g} for the least number of its replicas, {extra.cpus:g} to change"
        reason = f"{parts} a version while the old one serves)" if extra.cpus else ""
        return f"The config needs {cpus:g} CPUs{reason}, and {_cpus_of(nodes)}: {_REMEDY}."
    for scale in scales(config):
        places = sum(node.cpus >= max(scale.cpus, _ANY) for node in nodes)
        if not places:
            return (
                f"Each replica of {scale.application} needs {scale.cpus:g} CPUs (num_cpus), more"
                " than any node of the cluster has."
            )
        if (spread := scale.nodes(scale.least)) > places:
            return (
                f"The {scale.least} replicas of {scale.application} need {spread} nodes"
                f" (max_replicas_per_node), and {_cpus_of(nodes)}."
            )
    megabytes = need.megabytes + extra.megabytes + megabytes_of_ray(len(nodes))
    if megabytes > (free := sum(node.megabytes for node in nodes)):
        return (
            f"The config needs {megabytes / 1000:.1f} GB of memory for the least number of its"
            f" replicas, and {free / 1000:.1f} GB were free when Ray was started: {_REMEDY}."
        )
    return None


def limit(config: Config, nodes: Sequence[Node]) -> str | None:
    """Return one sentence when there is less room than autoscaling may want."""
    need = most(config)
    megabytes = need.megabytes + megabytes_of_ray(len(nodes))
    cpus, free = sum(node.cpus for node in nodes), sum(node.megabytes for node in nodes)
    spread = max((scale.nodes(scale.most) for scale in scales(config)), default=1)
    places = sum(node.cpus >= _ANY for node in nodes)
    if need.cpus <= cpus and megabytes <= free and spread <= places:
        return None
    over = f" over {spread} nodes" if spread > 1 else ""
    return (
        f"The config can grow to {need.cpus:g} CPUs and {megabytes / 1000:.1f} GB of memory{over},"
        f" and {_cpus_of(nodes)} and {free / 1000:.1f} GB: replicas beyond that wait for more"
        " nodes."
    )


def _cpus_of(nodes: Sequence[Node]) -> str:
    places = [node for node in nodes if node.cpus >= _ANY]
    number = f"{len(places)} nodes" if len(places) != 1 else "1 node"
    return f"the cluster has {sum(node.cpus for node in places):g} ({number})"
