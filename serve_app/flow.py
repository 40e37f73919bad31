"""Builder of the flow application, Variant B.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.flow.service import FLOW, FlowOptions
from deployments.forecast.deployment import bind
from serve_app.configured_observability import configured_observability
from serve_app.settings import Settings


def build(args: FlowOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function."""
    settings = Settings()
    return bind(FLOW, args, settings.flow_model_path, configured_observability(settings))
