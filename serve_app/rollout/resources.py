"""What a serve config needs: CPUs as Ray counts them out, memory as docs/operations.md measures
it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Config = Mapping[str, Any]

# A replica on the average, a state actor, and what Ray and Serve take on every node and, in
# addition, on the head. See "Capacity" in docs/operations.md.
REPLICA_MB = 95
STATE_ACTOR_MB = 70
STATE_MB = 0.002  # in its replica and in its state actor
NODE_MB = 400
HEAD_MB = 600

_INFERENCE = "serve_app.inference:build"
_AUTO = {"min_replicas": 1, "max_replicas": 100}  # what Serve takes `num_replicas: auto` for


class Scale(NamedTuple):
    """How many replicas a deployment has, and what each of them asks Ray for.

    Attributes:
        application: its name.
        cpus: of one replica, ``num_cpus``.
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


class Need(NamedTuple):
    """What is needed of a whole cluster, memory without that of :func:`megabytes_of_ray`."""

    cpus: float
    megabytes: int


def least(config: Config) -> Need:
    """Return what the least number of replicas and the state actors need."""
    return _need(config, [(scale, scale.least) for scale in scales(config)])


def most(config: Config) -> Need:
    """Return what all replicas that autoscaling may start need."""
    return _need(config, [(scale, scale.most) for scale in scales(config)])


def surge(config: Config) -> Need:
    """Return what a new version needs in addition: one application changes after the other."""
    needs = [Need(each.surge * each.cpus, each.surge * REPLICA_MB) for each in scales(config)]
    return Need(
        round(max((each.cpus for each in needs), default=0.0), 3),
        max((each.megabytes for each in needs), default=0),
    )


def needs(config: Config) -> str:
    """Say what the config needs, on one node for the memory."""
    low, high, extra = least(config), most(config), surge(config)
    ray = megabytes_of_ray(1)
    return (
        f"needs {low.cpus + extra.cpus:.4g} CPUs and"
        f" {(low.megabytes + extra.megabytes + ray) / 1000:.1f} GB,"
        f" can grow to {high.cpus:g} and {(high.megabytes + ray) / 1000:.1f} GB"
    )


def megabytes_of_ray(nodes: int) -> int:
    """Return what Ray and Serve take before the first replica."""
    return HEAD_MB + nodes * NODE_MB


def state_actors(config: Config) -> int:
    return sum(args.get("shards", 1) for args in _inference_args(config))


def states(config: Config) -> int:
    """Return how many hidden states there may be."""
    return sum(args.get("max_states", 100_000) for args in _inference_args(config))


def scales(config: Config) -> Iterator[Scale]:
    """Yield one for each deployment, by Serve's defaults for an application that lists none."""
    for application in config["applications"]:
        for deployment in application.get("deployments") or [{}]:
            yield _scale(application["name"], deployment)


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
    cpus = 1.0 if cpus is None else float(cpus)
    return Scale(application, cpus, least, most, surge, per_node)


def _inference_args(config: Config) -> Iterator[Mapping[str, Any]]:
    for application in config["applications"]:
        if application["import_path"] == _INFERENCE:
            yield application.get("args") or {}


def _need(config: Config, replicas: list[tuple[Scale, int]]) -> Need:
    number = sum(count for _, count in replicas)
    return Need(
        round(sum(count * scale.cpus for scale, count in replicas), 3),
        number * REPLICA_MB + state_actors(config) * STATE_ACTOR_MB,
    )
