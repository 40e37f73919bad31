"""What a serve config needs, and whether a cluster has it.

CPUs are counted as Ray counts them; memory is what docs/operations.md measures. Ray lets replicas
wait indefinitely that find no node. `greenwave up` forks Ray's workers, which share what they
import; those of plain Ray share nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from serve_app.ray_dashboard import RayDashboard

Config = Mapping[str, Any]

# What Ray and Serve take on every node and, in addition, on the head. See "Capacity" in
# docs/operations.md.
STATE_MB = 0.0033  # of shared memory, once for all processes of a machine
NODE_MB = 400
HEAD_MB = 600
OBJECT_STORE_BYTES = 256 << 20  # nothing of ours travels through the object store

INFERENCE = "serve_app.inference:build"
_AUTO = {"min_replicas": 1, "max_replicas": 100}  # Serve's meaning of `num_replicas: auto`
_REMEDY = "add nodes, or lower min_replicas, num_replicas or num_cpus"
_MIN_CPUS = 0.001  # a head with --num-cpus=0 has no replicas
_MB = 1 << 20


class Scale(NamedTuple):
    """How many replicas a deployment has, and what each of them asks Ray for.

    Attributes:
        application: its name.
        cpus: ``num_cpus`` of a replica.
        surge: replicas of a new version beside ``least`` of the old one.
        per_node: how many replicas one node may have; None for any number.
    """

    application: str
    cpus: float
    least: int
    most: int
    surge: int
    per_node: int | None

    def nodes(self, replicas: int) -> int:
        """Return how many nodes that many replicas must be spread over."""
        return math.ceil(replicas / self.per_node) if self.per_node else 1


class Workers(NamedTuple):
    """Megabytes of an average replica, and of a state actor."""

    replica: int
    state_actor: int


FORKED = Workers(40, 40)
UNSHARED = Workers(95, 70)


class Room(NamedTuple):
    """CPUs and megabytes: of a node when Ray starts, or what a config needs beside Ray."""

    cpus: float
    megabytes: float


def scales(config: Config) -> Iterator[Scale]:
    """Yield the scale of each deployment, by Serve's defaults where the config has none."""
    for application in config["applications"]:
        for deployment in application.get("deployments") or [{}]:
            yield _scale(application["name"], deployment)


def least(config: Config, workers: Workers = UNSHARED) -> Room:
    """Return what the least number of replicas and the state actors need."""
    return _need(config, [(scale, scale.least) for scale in scales(config)], workers)


def most(config: Config, workers: Workers = UNSHARED) -> Room:
    """Return what the largest number of replicas that autoscaling may start needs."""
    return _need(config, [(scale, scale.most) for scale in scales(config)], workers)


def surge(config: Config, workers: Workers = UNSHARED) -> Room:
    """Return what a new version needs in addition: applications change one after the other."""
    cpus = max((each.surge * each.cpus for each in scales(config)), default=0.0)
    replicas = max((each.surge for each in scales(config)), default=0)
    return Room(round(cpus, 3), replicas * workers.replica)


def describe_needs(config: Config) -> str:
    """Describe what the config needs on a cluster of one node."""
    low, high, extra = least(config), most(config), surge(config)
    cpus, megabytes = low.cpus + extra.cpus, low.megabytes + extra.megabytes
    ray = megabytes_of_ray(1)
    needs = f"needs {cpus:.4g} CPUs and {(megabytes + ray) / 1000:.1f} GB"
    if high == low:
        return needs
    most_megabytes = max(high.megabytes, megabytes) + ray
    return f"{needs}, can grow to {max(high.cpus, cpus):.4g} and {most_megabytes / 1000:.1f} GB"


def megabytes_of_ray(nodes: int) -> int:
    """Return the memory of Ray and Serve without replicas."""
    return HEAD_MB + nodes * NODE_MB


def state_actors(config: Config) -> int:
    return sum(args.get("shards", 1) for args in _inference_args(config))


def states(config: Config) -> int:
    """Return how many hidden states there may be."""
    return sum(args.get("max_states", 100_000) for args in _inference_args(config))


def nodes_of(dashboard: RayDashboard) -> list[Room]:
    """Return the live nodes of a cluster.

    Raises:
        httpx.HTTPError: it does not answer.
    """
    alive = (each["resources_total"] for each in dashboard.nodes() if each["state"] == "ALIVE")
    return [Room(each.get("CPU", 0.0), each.get("memory", 0.0) / _MB) for each in alive]


def local_node() -> Room:
    """Return what a Ray that starts now finds on this machine."""
    from deployments.ray_private.core import available_cpus, available_memory  # imports Ray

    return Room(available_cpus(), available_memory() / _MB)


def shortfall(config: Config, nodes: Sequence[Room], workers: Workers) -> str | None:
    """Return one sentence if there is no room for the least number of replicas."""
    need, extra = least(config, workers), surge(config, workers)
    cpus = round(need.cpus + extra.cpus, 3)
    if cpus > sum(node.cpus for node in nodes):
        parts = f" ({need.cpus:g} for the least number of its replicas, {extra.cpus:g} to change"
        reason = f"{parts} a version while the old one serves)" if extra.cpus else ""
        return f"The config needs {cpus:g} CPUs{reason}, and {_cpus_of(nodes)}: {_REMEDY}."
    for scale in scales(config):
        places = sum(node.cpus >= max(scale.cpus, _MIN_CPUS) for node in nodes)
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


def growth_limit(config: Config, nodes: Sequence[Room], workers: Workers) -> str | None:
    """Return one sentence if there is less room than autoscaling may use."""
    need = most(config, workers)
    megabytes = need.megabytes + megabytes_of_ray(len(nodes))
    cpus, free = sum(node.cpus for node in nodes), sum(node.megabytes for node in nodes)
    spread = max((scale.nodes(scale.most) for scale in scales(config)), default=1)
    places = sum(node.cpus >= _MIN_CPUS for node in nodes)
    if need.cpus <= cpus and megabytes <= free and spread <= places:
        return None
    over = f" over {spread} nodes" if spread > 1 else ""
    return (
        f"The config can grow to {need.cpus:g} CPUs and {megabytes / 1000:.1f} GB of memory{over},"
        f" and {_cpus_of(nodes)} and {free / 1000:.1f} GB: further replicas wait for more nodes."
    )


def _cpus_of(nodes: Sequence[Room]) -> str:
    places = [node for node in nodes if node.cpus >= _MIN_CPUS]
    number = f"{len(places)} nodes" if len(places) != 1 else "1 node"
    return f"the cluster has {sum(node.cpus for node in places):g} ({number})"


def _scale(application: str, deployment: Mapping[str, Any]) -> Scale:
    fixed = deployment.get("num_replicas")
    bounds = deployment.get("autoscaling_config") or (_AUTO if fixed == "auto" else None)
    if bounds is None:
        least = most = 1 if fixed is None else int(fixed)
    else:
        least, most = bounds.get("min_replicas", 1), bounds.get("max_replicas", 1)
    cpus = (deployment.get("ray_actor_options") or {}).get("num_cpus")
    surge = math.ceil(least * deployment.get("max_surge_percent", 0) / 100)
    per_node = deployment.get("max_replicas_per_node")
    return Scale(application, 1.0 if cpus is None else float(cpus), least, most, surge, per_node)


def _inference_args(config: Config) -> Iterator[Mapping[str, Any]]:
    for application in config["applications"]:
        if application["import_path"] == INFERENCE:
            yield application.get("args") or {}


def _need(config: Config, replicas: list[tuple[Scale, int]], workers: Workers) -> Room:
    number = sum(count for _, count in replicas)
    return Room(
        round(sum(count * scale.cpus for scale, count in replicas), 3),
        number * workers.replica + state_actors(config) * workers.state_actor,
    )
