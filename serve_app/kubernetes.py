"""The Kubernetes manifest of a serve config: ``configs/rayservice.yaml.tmpl`` with its values.

There are two RayServices: KubeRay changes a cluster by running a second one beside it, and two
clusters that step the same hidden states would each have a part of them. So the inference has a
RayService that is never doubled, and everything else is upgraded gradually.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import ray
import yaml

from serve_app.rollout.capacity import (
    HEAD_MB,
    INFERENCE,
    NODE_MB,
    OBJECT_STORE_BYTES,
    STATE_MB,
    UNSHARED,
    Config,
    least,
    most,
    scales,
    state_actors,
    states,
    surge,
)
from serve_app.rollout.node_environment import variables

Document = dict[str, Any]

TEMPLATE = Path(__file__).resolve().parents[1] / "configs" / "rayservice.yaml.tmpl"
NAME = "greenwave"  # of the RayServices, and of the Secret
USER = 10001  # of the Containerfile
MEMORY_MARGIN = 1.5  # beyond what was measured
MIN_WORKERS = 2  # so that one may be evicted
WORKER_CPUS = 2  # of each worker, unless a replica needs more
KEYS_FOLDER = "/etc/greenwave"


class ManifestValues(NamedTuple):
    """Values that are not in a serve config.

    Attributes:
        redis: host and port.
        gateway_class: of the Gateway API, which moves traffic to another version.
        signing_keys: name of the Secret with `jwt-keys.json`, if there is one.
    """

    image: str
    redis: str
    gateway_class: str
    signing_keys: str | None = None


def render(config: Config, values: ManifestValues) -> str:
    """Return the manifest as YAML: the RayServices, each followed by its disruption budget."""
    applications = config["applications"]
    inference = [each for each in applications if each["import_path"] == INFERENCE]
    others = [each for each in applications if each["import_path"] != INFERENCE]
    found: list[Document] = []
    added: dict[str, str] = {}
    if inference:
        name = f"{NAME}-inference"
        part = {**config, "applications": inference}
        found += _ray_service(part, values, name, {"type": "None"}, {})
        route = str(inference[0].get("route_prefix") or "/").rstrip("/")
        url = f"http://{name}-serve-svc:{_port(config)}{route}/predict_action"
        added = {"RL_INFERENCE_SERVICE_URL": url}
    if others:
        gradual = {
            "type": "NewClusterWithIncrementalUpgrade",
            "clusterUpgradeOptions": {
                "gatewayClassName": values.gateway_class,
                "maxSurgePercent": 50,
                "stepSizePercent": 10,
                "intervalSeconds": 30,
            },
        }
        part = {**config, "applications": others}
        found += _ray_service(part, values, NAME, gradual, added)
    return _to_yaml(*found)


def _ray_service(
    config: Config,
    values: ManifestValues,
    name: str,
    upgrade_strategy: Document,
    added: Mapping[str, str],
) -> list[Document]:
    cpus = max(WORKER_CPUS, *(math.ceil(scale.cpus) for scale in scales(config)))
    min_workers, max_workers = _workers(config, cpus)
    volumes, mounts = _volumes(values.signing_keys)
    substituted = {
        "name": name,
        "budget_name": f"{name}-workers",
        "upgrade_strategy": upgrade_strategy,
        "serve_config": _to_yaml(dict(config)),
        "ray_version": ray.__version__,
        "redis": values.redis,
        "secret": NAME,
        "image": values.image,
        "user": USER,
        "port": _port(config),
        "environment": [*_environment({**variables(config), **added}, values)],
        "object_store": str(OBJECT_STORE_BYTES),
        "head_memory": _memory(HEAD_MB + NODE_MB),
        "min_workers": min_workers,
        "max_workers": max_workers,
        "worker_cpus": str(cpus),
        "worker_memory": _memory(_worker_megabytes(config, cpus)),
        "volumes": volumes,
        "mounts": mounts,
    }
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    text = template.substitute({key: json.dumps(each) for key, each in substituted.items()})
    return list(yaml.safe_load_all(text))


def _environment(named: Mapping[str, str], values: ManifestValues) -> Iterator[Document]:
    plain = {
        **named,
        "ENVIRONMENT": "production",
        "DATA_DIR": "/tmp/greenwave",  # nothing is kept here: the store is Redis
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    if values.signing_keys:
        plain["JWT_KEYS_FILE"] = f"{KEYS_FOLDER}/jwt-keys.json"
    yield from ({"name": name, "value": value} for name, value in plain.items())
    secret: Document = {"name": NAME}
    for name, reference in {
        "STORE_URL": secret | {"key": "store-url"},
        "JWT_SECRET": secret | {"key": "jwt-secret"},
        "INFERENCE_TOKEN": secret | {"key": "inference-token", "optional": True},
    }.items():
        yield {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _volumes(signing_keys: str | None) -> tuple[list[Document], list[Document]]:
    """Return the volumes of a pod and where they are mounted; only /tmp is written to."""
    volumes: list[Document] = [{"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}}]
    mounts: list[Document] = [{"name": "tmp", "mountPath": "/tmp"}]
    if signing_keys:
        # replicas read it again when the Secret changes; readable by the group, not by everybody
        secret = {"secretName": signing_keys, "defaultMode": 0o440}
        volumes.append({"name": "signing-keys", "secret": secret})
        mounts.append({"name": "signing-keys", "mountPath": KEYS_FOLDER, "readOnly": True})
    return volumes, mounts


def _workers(config: Config, cpus: int) -> tuple[int, int]:
    """Return the least and the largest number of workers that have the CPUs and the places."""
    needed = least(config).cpus + surge(config).cpus
    spread = max(scale.nodes(scale.least) for scale in scales(config))
    fewest = max(MIN_WORKERS, spread, math.ceil(needed / cpus))
    spread = max(scale.nodes(scale.most) for scale in scales(config))
    return fewest, max(fewest, spread, math.ceil(most(config).cpus / cpus))


def _worker_megabytes(config: Config, cpus: int) -> float:
    """Return the memory of as many replicas as one worker may have, by CPUs and by number."""
    smallest = min((each.cpus for each in scales(config) if each.cpus), default=1.0)
    allowed = sum(min(each.most, each.per_node or each.most) for each in scales(config))
    replicas = min(math.ceil(cpus / smallest), allowed)
    actors = state_actors(config) * UNSHARED.state_actor + states(config) * STATE_MB
    return NODE_MB + replicas * UNSHARED.replica + actors


def _memory(megabytes: float) -> str:
    """Return a quantity of Kubernetes, with the margin, rounded up to quarters of a GiB."""
    total = megabytes * MEMORY_MARGIN + OBJECT_STORE_BYTES / 1e6
    return f"{math.ceil(total * 1e6 / (256 << 20)) * 256}Mi"


def _port(config: Config) -> int:
    return int((config.get("http_options") or {}).get("port", 8000))


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and everything without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _write_text)


def _to_yaml(*documents: Document) -> str:
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False)
    return text
