"""Builder of the flow application, Variant B.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.flow.options import FlowOptions
from deployments.flow.variant import FLOW
from deployments.forecast.deployment import bind
from serve_app.settings import Settings


def build(args: FlowOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function."""
    return bind(FLOW, args, Settings().flow_model_path)
