"""RayServices from a serve config: one for the hidden states, one for what has none.

Two clusters that step the same hidden states at once would each have a part of every memory, and
KubeRay changes a cluster by running a second one beside it. So the inference is a RayService of
its own that is never doubled, and all others are changed by degrees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import ray

from serve_app.kubernetes.pods import (
    OBJECT_STORE_BYTES,
    TMP,
    Pods,
    head_template,
    label,
    quantity,
    worker_template,
)
from serve_app.kubernetes.text import to_yaml
from serve_app.rollout.node_environment import variables
from serve_app.rollout.resources import (
    HEAD_MB,
    NODE_MB,
    REPLICA_MB,
    STATE_ACTOR_MB,
    STATE_MB,
    Config,
    least,
    most,
    scales,
    state_actors,
    states,
    surge,
)

Document = dict[str, Any]

INFERENCE = "serve_app.inference:build"
_MARGIN = 1.5  # of memory beyond what was measured
_MIN_WORKERS = 2  # so that one may go


class Wishes(NamedTuple):
    """What is not in a serve config.

    Attributes:
        name: of the RayServices, with ``-inference`` for that of the hidden states.
        redis: host and port.
        secret: name of the Secret.
        worker_cpus: CPUs of each worker.
        gateway_class: of the Gateway API, through which traffic moves to another version.
        signing_keys: name of the Secret with `jwt-keys.json`, if there is one.
    """

    name: str
    image: str
    redis: str
    secret: str
    worker_cpus: int
    gateway_class: str
    signing_keys: str | None = None


def documents(config: Config, wishes: Wishes) -> list[Document]:
    """Return the RayServices, each followed by its disruption budget."""
    inference = [app for app in config["applications"] if app["import_path"] == INFERENCE]
    others = [app for app in config["applications"] if app["import_path"] != INFERENCE]
    found: list[Document] = []
    added: dict[str, str] = {}
    if inference:
        name = f"{wishes.name}-inference"
        found += _service(config, inference, name, wishes, {}, {"type": "None"})
        route = str(inference[0].get("route_prefix") or "/").rstrip("/")
        url = f"http://{name}-serve-svc:{_port(config)}{route}/predict_action"
        added = {"RL_INFERENCE_SERVICE_URL": url}
    if others:
        found += _service(config, others, wishes.name, wishes, added, _by_degrees(wishes))
    return found


def _by_degrees(wishes: Wishes) -> Document:
    return {
        "type": "NewClusterWithIncrementalUpgrade",
        "clusterUpgradeOptions": {
            "gatewayClassName": wishes.gateway_class,
            "maxSurgePercent": 50,
            "stepSizePercent": 10,
            "intervalSeconds": 30,
        },
    }


def _service(
    config: Config,
    applications: list[Any],
    name: str,
    wishes: Wishes,
    added: Mapping[str, str],
    upgrade: Document,
) -> list[Document]:
    part = dict(config) | {"applications": applications}
    fewest, largest = _workers(part, wishes.worker_cpus)
    named = variables(config) | dict(added)
    keys = wishes.signing_keys
    pods = Pods(name, wishes.image, wishes.secret, named, _port(config), keys)
    cluster: Document = {
        "rayVersion": ray.__version__,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": "v2",
            "idleTimeoutSeconds": 300,
            "resources": _exactly("500m", "512Mi"),
            "securityContext": pods.confinement(),
            "volumeMounts": [TMP],
        },
        "authOptions": {"mode": "token"},  # the operator makes the token, in a Secret
        "gcsFaultToleranceOptions": {
            "redisAddress": wishes.redis,
            "redisPassword": {"valueFrom": pods.secret_key("redis-password")},
        },
        "headGroupSpec": {
            "rayStartParams": _start({"num-cpus": "0", "dashboard-host": "0.0.0.0"}),
            "template": head_template(pods, _exactly("1", _memory(HEAD_MB + NODE_MB))),
        },
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                "replicas": fewest,
                "minReplicas": fewest,
                "maxReplicas": largest,
                "rayStartParams": _start({}),
                "template": worker_template(
                    pods, _exactly(str(wishes.worker_cpus), _worker_memory(part, wishes))
                ),
            }
        ],
    }
    service = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": name, "labels": label(name)},
        "spec": {
            "upgradeStrategy": upgrade,
            "excludeHeadPodFromServeSvc": True,
            "rayClusterDeletionDelaySeconds": 60,
            "serveConfigV2": to_yaml(part),
            "rayClusterConfig": cluster,
        },
    }
    return [service, _budget(name)]


def _budget(name: str) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{name}-workers", "labels": label(name)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": label(name, "worker")}},
    }


def _workers(config: Config, cpus: int) -> tuple[int, int]:
    """Return the least and the largest number of workers that have the CPUs and the places."""
    needed = least(config).cpus + surge(config).cpus
    spread = max(scale.nodes(scale.least) for scale in scales(config))
    fewest = max(_MIN_WORKERS, spread, math.ceil(needed / cpus))
    spread = max(scale.nodes(scale.most) for scale in scales(config))
    return fewest, max(fewest, spread, math.ceil(most(config).cpus / cpus))


def _worker_memory(config: Config, wishes: Wishes) -> str:
    """Return memory for as many replicas as may meet on a worker, by their CPUs and by number."""
    smallest = min((each.cpus for each in scales(config) if each.cpus), default=1.0)
    together = math.ceil(wishes.worker_cpus / smallest)
    allowed = sum(min(each.most, each.per_node or each.most) for each in scales(config))
    replicas = min(together, allowed)
    actors = state_actors(config) * STATE_ACTOR_MB + states(config) * STATE_MB
    return _memory(NODE_MB + replicas * REPLICA_MB + actors)


def _memory(megabytes: float) -> str:
    stored = OBJECT_STORE_BYTES / 1e6
    return quantity(megabytes * _MARGIN + stored)


def _exactly(cpu: str, memory: str) -> Document:
    """Return requests that are limits, too: Ray counts out the limits."""
    return {each: {"cpu": cpu, "memory": memory} for each in ("requests", "limits")}


def _start(params: dict[str, str]) -> dict[str, str]:
    return params | {"object-store-memory": str(OBJECT_STORE_BYTES)}


def _port(config: Config) -> int:
    return int((config.get("http_options") or {}).get("port", 8000))
