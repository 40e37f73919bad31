"""Builder of the density application, Variant A.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.density.service import DensityService
from deployments.forecast.deployment import bind
from deployments.options import Options
from serve_app.configured_replicas import configured_observability
from serve_app.settings import Settings


def build(args: Options) -> Application:
    """Build the application; ``import_path`` in the serve config names this function."""
    settings = Settings()
    return bind(DensityService, settings.density_model_path, configured_observability(settings))
