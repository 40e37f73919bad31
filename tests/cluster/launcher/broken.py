"""Applications that import, and whose replicas cannot start, or not yet.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

import os
from pathlib import Path
from typing import Any
from unittest import mock

from ray import serve
from ray.serve import Application

from deployments.inference.options import InferenceOptions
from serve_app import inference
from serve_app.configured_replicas import open_configured_store


@serve.deployment(name="Inference")
class Broken:
    def __init__(self) -> None:
        raise RuntimeError("the new version is broken")

    async def __call__(self) -> str:
        return "never"


def build(args: InferenceOptions) -> Application:
    application: Application = Broken.bind()  # type: ignore[attr-defined]
    return application


def build_flaky(args: InferenceOptions) -> Application:
    """Build the inference, unless a file of the folder ``FAILURES`` is called after this step."""
    _fail_once("builder")
    with mock.patch.object(inference, "open_configured_store", _open_store):
        return inference.build(args)


def _open_store(*args: Any) -> Any:
    _fail_once("constructor")
    return open_configured_store(*args)


def _fail_once(step: str) -> None:
    for file in Path(os.environ["FAILURES"]).glob(f"{step}*"):
        file.unlink()
        raise OSError(f"the {step} failed")
