"""Builder of the inference application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.inference.deployment import Inference
from deployments.inference.options import InferenceOptions
from serve_app.configured_store import open_configured_store, require_shared_store
from serve_app.settings import Settings


def build(args: InferenceOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function."""
    require_shared_store()
    application: Application = Inference.bind(  # type: ignore[attr-defined]
        args,
        agent_path=str(Settings().mappo_agent_path),
        open_store=open_configured_store,
    )
    return application
