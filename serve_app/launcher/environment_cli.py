"""``greenwave environment``: prints what ``ray start`` must have set on every node."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serve_app.launcher.command_error import ROOT, naming_broken_files

# Read by the GCS: a node that has died is given up after 2 s instead of 15, one that hangs after 4.
RAY = {
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}


def add_environment(environment: argparse.ArgumentParser) -> None:
    default = ROOT / "configs" / "cluster.yaml"
    environment.add_argument("config", nargs="?", type=Path, default=default, help="serve config")
    environment.set_defaults(run=_environment)


def _environment(options: argparse.Namespace) -> None:
    with naming_broken_files():
        from serve_app.launcher.config import read_config
    for name, value in variables(read_config(options.config)).items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


def variables(config: Mapping[str, Any]) -> dict[str, str]:
    """Return Ray's own, and those of Serve's processes, which it starts on later nodes, too."""
    options = config.get("controller_options") or {}
    environment = (options.get("runtime_env") or {}).get("env_vars") or {}
    return RAY | {str(name): str(value) for name, value in environment.items()}
