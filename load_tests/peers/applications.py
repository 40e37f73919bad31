"""Peers on Serve, as applications of a serve config with the settings of the shipped inference."""

from __future__ import annotations

from typing import Any

from load_tests.harness.shipped import Config, shipped_application, shipped_config

_OWN = ("name", "user_config")


def no_op(prefix: str = "/") -> dict[str, Any]:
    """Return the ingress that does nothing, on the shipped fast path."""
    return {
        "name": "no-op",
        "route_prefix": prefix,
        "import_path": "load_tests.peers.serve_noop:app",
        "runtime_env": shipped_application("inference")["runtime_env"],
        "deployments": [{"name": "NoOp", **_settings()}],
    }


def policy(**env: str) -> dict[str, Any]:
    """Return the policy as an ordinary FastAPI ingress, with nothing that Serve is not told."""
    return {
        "name": "policy",
        "route_prefix": "/",
        "import_path": "load_tests.peers.serve_policy:app",
        "runtime_env": {"env_vars": env},
        "deployments": [{"name": "Policy", **_settings()}],
    }


def without_fast_path() -> Config:
    """Return the shipped config with Serve's own Python proxy in place of HAProxy."""
    config = shipped_config()
    del config["controller_options"]
    return config


def _settings() -> dict[str, Any]:
    (deployment,) = shipped_application("inference")["deployments"]
    return {key: value for key, value in deployment.items() if key not in _OWN}
