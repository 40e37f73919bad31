"""Reads the model files that a serve config names, before any replica has to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deployments.density.service import DensityService
from deployments.flow.service import FlowService
from models.artifacts import InvalidArtifactError
from models.policy.form import InvalidPolicyFileError
from models.policy.step import PolicyStep

_READERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "serve_app.inference:build": ("agent_path", "MAPPO_AGENT_PATH", PolicyStep.load),
    "serve_app.density:build": ("model_path", "DENSITY_MODEL_PATH", DensityService.read),
    "serve_app.flow:build": ("model_path", "FLOW_MODEL_PATH", FlowService.read),
}


def faults_of_weights(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each model file in the config that a replica would refuse.

    A replica keeps the model that it has, or starts without one and answers 503.
    """
    for application in config["applications"]:
        if application["import_path"] not in _READERS:
            continue
        key, variable, read = _READERS[application["import_path"]]
        for path in _paths(application, key, variable):
            try:
                read(Path(path))
            except (InvalidPolicyFileError, InvalidArtifactError) as error:
                yield f"Application {application['name']}: {error}."


def _paths(application: Mapping[str, Any], key: str, variable: str) -> Iterator[str]:
    """Yield what is named under ``key`` or, in the environment, as ``variable``."""
    environment = (application.get("runtime_env") or {}).get("env_vars") or {}
    places = [application.get("args") or {}]
    user_configs = [each.get("user_config") or {} for each in application.get("deployments", [])]
    places += user_configs
    places += [each.get("candidate") or {} for each in user_configs]
    yield from filter(None, [environment.get(variable), *(place.get(key) for place in places)])
