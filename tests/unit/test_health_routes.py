"""Balancers and supervisors use liveness, never readiness.

A store outage makes all replicas unready at once: none would be left to give fallbacks or to step
owned states.
"""

from pathlib import Path

import pytest
import yaml

from load_tests.harness.shipped import shipped_config
from serve_app.kubernetes import ManifestValues, render

ROOT = Path(__file__).resolve().parents[2]


def checked(text: str) -> set[str]:
    """Return the paths of HAProxy's health checks."""
    checks = (line.split() for line in text.splitlines() if "option httpchk" in line)
    return {path for *_, path in checks}


@pytest.mark.parametrize(
    ("config", "path"), [("edge.cfg.tmpl", "/-/routes"), ("balancer.cfg", "/-/healthz")]
)
def test_balancers_check_ray_and_not_the_services(config, path):
    assert checked((ROOT / "configs" / config).read_text()) == {path}


def test_a_pod_is_ready_and_alive_by_checks_of_ray():
    values = ManifestValues("image", "redis:6379", "istio")
    services = list(yaml.safe_load_all(render(shipped_config(), values)))[::2]
    for service in services:
        (workers,) = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        (pod,) = workers["template"]["spec"]["containers"]
        probes = {pod[each]["httpGet"]["path"] for each in ("readinessProbe", "livenessProbe")}
        assert probes == {"/-/healthz", "/api/local_raylet_healthz"}
