"""An application that imports, and whose replicas cannot start.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray import serve
from ray.serve import Application

from deployments.inference.options import InferenceOptions


@serve.deployment(name="Inference")
class Broken:
    def __init__(self) -> None:
        raise RuntimeError("the new version is broken")

    async def __call__(self) -> str:
        return "never"


def build(args: InferenceOptions) -> Application:
    application: Application = Broken.bind()  # type: ignore[attr-defined]
    return application
