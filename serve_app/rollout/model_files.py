"""Reads the model files that a serve config names, before any replica has to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from deployments.density.service import DensityService
from deployments.flow.service import FlowService
from models.artifacts import InvalidArtifactError
from models.networks.file import InvalidNetworkError
from models.policy.form import InvalidPolicyFileError
from models.policy.step import PolicyStep
from serve_app.configured_network import resolved
from serve_app.rollout.networks import network_of
from serve_app.settings import Settings

_INFERENCE = "serve_app.inference:build"
_READERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "serve_app.density:build": ("model_path", "DENSITY_MODEL_PATH", DensityService.read),
    "serve_app.flow:build": ("model_path", "FLOW_MODEL_PATH", FlowService.read),
}


def faults_of_weights(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each file in the config that an application or replica would refuse.

    A replica keeps the model that it has, or starts without one and answers 503.
    """
    for application in config["applications"]:
        for read in _readings(application):
            try:
                read()
            except (InvalidPolicyFileError, InvalidArtifactError, InvalidNetworkError) as error:
                yield f"Application {application['name']}: {error}."


def _readings(application: Mapping[str, Any]) -> Iterator[Callable[[], object]]:
    """Yield what reads each of an application's files."""
    builder = application["import_path"]
    if builder == _INFERENCE:
        yield lambda: network_of(application)
        named = list(_paths(application, "agent_path", "MAPPO_AGENT_PATH"))
        for path in named or [str(Settings().mappo_agent_path)]:
            yield partial(_read_policy, application, path)
    elif builder in _READERS:
        key, variable, read = _READERS[builder]
        for path in _paths(application, key, variable):
            yield partial(read, Path(path))


def _read_policy(application: Mapping[str, Any], path: str) -> None:
    with suppress(InvalidNetworkError):  # which is told by itself
        PolicyStep.load(resolved(Path(path)), network_of(application))


def _paths(application: Mapping[str, Any], key: str, variable: str) -> Iterator[str]:
    """Yield what is named under ``key`` or, in the environment, as ``variable``."""
    environment = (application.get("runtime_env") or {}).get("env_vars") or {}
    places = [application.get("args") or {}]
    user_configs = [each.get("user_config") or {} for each in application.get("deployments", [])]
    places += user_configs
    places += [each.get("candidate") or {} for each in user_configs]
    yield from filter(None, [environment.get(variable), *(place.get(key) for place in places)])
