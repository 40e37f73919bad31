"""Reads the model files that a serve config names, before any replica has to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deployments.density.service import DensityService
from deployments.flow.service import FlowService
from models.artifacts import InvalidArtifactError
from models.policy.form import InvalidPolicyFileError
from models.policy.step import PolicyStep

_READERS = {
    "serve_app.inference:build": ("agent_path", PolicyStep.load),
    "serve_app.density:build": ("model_path", DensityService.read),
    "serve_app.flow:build": ("model_path", FlowService.read),
}


def faults_of_weights(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each model file in the config that a replica would refuse.

    A replica keeps the model that it has, or starts without one and answers 503.
    """
    for application in config["applications"]:
        key, read = _READERS.get(application["import_path"], ("", None))
        if read is None:
            continue
        for where in _places(application):
            if path := where.get(key):
                try:
                    read(Path(path))
                except (InvalidPolicyFileError, InvalidArtifactError) as error:
                    yield f"Application {application['name']}: {error}."


def _places(application: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield application.get("args") or {}
    for deployment in application.get("deployments", []):
        yield deployment.get("user_config") or {}
