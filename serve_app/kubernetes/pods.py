"""The pods of a RayService: what runs in them, what they may do, and how one sees their health."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

Document = dict[str, Any]

USER = 10001  # of the Containerfile
AGENT_PORT = 52365  # where Ray's agent tells of its node, without a token
DASHBOARD_PORT = 8265
OBJECT_STORE_BYTES = 256 << 20  # nothing of ours travels through the object store
DRAIN_S = 60  # beyond the 30 s for which a replica ends what it has begun
TMP: Document = {"name": "tmp", "mountPath": "/tmp"}  # all that is written to
_KEYS_FOLDER, _KEYS_FILE = "/etc/greenwave", "jwt-keys.json"
_SETTINGS = {"STORE_URL": "store-url", "JWT_SECRET": "jwt-secret"}


class Pods(NamedTuple):
    """What all pods of a RayService have in common.

    Attributes:
        name: of the RayService.
        secret: name of the Secret.
        variables: for every process of Ray on every node.
        port: Serve's.
        signing_keys: name of a Secret with the file that `greenwave keys` writes, if there is one.
    """

    name: str
    image: str
    secret: str
    variables: Mapping[str, str]
    port: int
    signing_keys: str | None = None

    def secret_key(self, key: str) -> Document:
        return {"secretKeyRef": {"name": self.secret, "key": key}}

    def environment(self) -> list[Document]:
        plain = {
            **self.variables,
            "ENVIRONMENT": "production",
            "DATA_DIR": "/tmp/greenwave",  # nothing is kept here: the store is Redis
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
        }
        given: list[Document] = [{"name": name, "value": value} for name, value in plain.items()]
        given += [
            {"name": name, "valueFrom": self.secret_key(key)} for name, key in _SETTINGS.items()
        ]
        token = self.secret_key("inference-token")
        token["secretKeyRef"]["optional"] = True
        given.append({"name": "INFERENCE_TOKEN", "valueFrom": token})
        if self.signing_keys:
            given.append({"name": "JWT_KEYS_FILE", "value": f"{_KEYS_FOLDER}/{_KEYS_FILE}"})
        return given

    def volumes(self) -> list[Document]:
        tmp: Document = {"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}}
        if not self.signing_keys:
            return [tmp]
        # read again by every replica when the Secret changes; of its group, not of everybody
        secret = {"secretName": self.signing_keys, "defaultMode": 0o440}
        return [tmp, {"name": "signing-keys", "secret": secret}]

    def mounts(self) -> list[Document]:
        keys = {"name": "signing-keys", "mountPath": _KEYS_FOLDER, "readOnly": True}
        return [TMP, keys] if self.signing_keys else [TMP]

    def confinement(self) -> Document:
        return {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def head_template(pods: Pods, resources: Document) -> Document:
    """Return the head's pod: ready when the GCS answers, alive while its raylet does."""
    ports = {"gcs-server": 6379, "dashboard": DASHBOARD_PORT, "serve": pods.port}
    ready = _probe("/api/gcs_healthz", DASHBOARD_PORT, failures=20)
    return _template(pods, "head", resources, ports, ready)


def worker_template(pods: Pods, resources: Document) -> Document:
    """Return a worker's pod: ready when Serve's front has replicas to send requests to.

    Not when ``/readyz`` says so: it speaks of the store that all pods share, and without it the
    Service would lose every one of them, and with them the answers that need no store.
    """
    ready = _probe("/-/healthz", pods.port, failures=1)
    template = _template(pods, "worker", resources, {"serve": pods.port}, ready)
    template["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": label(pods.name, "worker")},
        }
    ]
    return template


def label(name: str, component: str | None = None) -> dict[str, str]:
    labels = {"app.kubernetes.io/name": "greenwave", "app.kubernetes.io/instance": name}
    return labels | ({"app.kubernetes.io/component": component} if component else {})


def quantity(megabytes: float) -> str:
    """Round up to quarters of a GiB, in Kubernetes' words."""
    return f"{math.ceil(megabytes * 1e6 / (256 << 20)) * 256}Mi"


def _template(
    pods: Pods, component: str, resources: Document, ports: Mapping[str, int], ready: Document
) -> Document:
    container: Document = {
        "name": f"ray-{component}",
        "image": pods.image,
        "env": pods.environment(),
        "resources": resources,
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "readinessProbe": ready,
        "livenessProbe": _probe("/api/local_raylet_healthz", AGENT_PORT, failures=40),
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}},
        "securityContext": pods.confinement(),
        "volumeMounts": pods.mounts(),
    }
    spec: Document = {
        "terminationGracePeriodSeconds": DRAIN_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": pods.volumes(),
    }
    return {"metadata": {"labels": label(pods.name, component)}, "spec": spec}


def _probe(path: str, port: int, failures: int) -> Document:
    return {
        "httpGet": {"path": path, "port": port},
        "initialDelaySeconds": 10,
        "periodSeconds": 3,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
