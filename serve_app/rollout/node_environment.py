"""Environment variables that ``ray start`` needs on every node of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Read by the GCS: a node that has died is given up after 2 s instead of 15, one that hangs after 4.
RAY = {
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}


def variables(config: Mapping[str, Any]) -> dict[str, str]:
    """Return Ray's own, and those of Serve's processes, which it starts on later nodes, too."""
    options = config.get("controller_options") or {}
    environment = (options.get("runtime_env") or {}).get("env_vars") or {}
    return RAY | {str(name): str(value) for name, value in environment.items()}
