"""Applications of serve_config.yaml, with the changes of a test or a benchmark."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

Config = dict[str, Any]


def shipped_config() -> Config:
    config: Config = yaml.safe_load((ROOT / "serve_config.yaml").read_text())
    return config


def config_but(
    config: Config,
    name: str,
    args: Mapping[str, object] | None = None,
    deployment: Mapping[str, object] | None = None,
) -> Config:
    """Return a config with other keys in one application's arguments or deployment."""
    changed = copy.deepcopy(config)
    (application,) = [app for app in changed["applications"] if app["name"] == name]
    application["args"] |= args or {}
    (only,) = application["deployments"]
    only |= deployment or {}
    return changed


def shipped_application(
    name: str,
    *,
    called: str | None = None,
    prefix: str | None = None,
    replicas: int = 1,
    args: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    user_config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return one application on a fixed number of replicas.

    Args:
        name: in serve_config.yaml.
        called, prefix: another name and place.
        args, env: added to the application's arguments and environment variables.
        user_config: of its deployment, in place of the shipped one.
    """
    (application,) = [app for app in shipped_config()["applications"] if app["name"] == name]
    application["args"] |= args or {}
    application["runtime_env"]["env_vars"] |= env or {}
    (deployment,) = application["deployments"]
    deployment.pop("autoscaling_config", None)
    deployment["num_replicas"] = replicas
    if user_config is not None:
        deployment["user_config"] = user_config
    application["name"] = called or name
    application["route_prefix"] = prefix or application["route_prefix"]
    return dict(application)
