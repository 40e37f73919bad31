"""Builder of the inference application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.inference.deployment import Inference
from deployments.inference.options import InferenceOptions
from deployments.inference.policy_model import diagnoses_of
from serve_app.configured_network import configured_network, resolved
from serve_app.configured_replicas import (
    configured_observability,
    open_configured_store,
    require_shared_store,
)
from serve_app.identity.inference_token import configured_tokens
from serve_app.settings import Settings


def build(args: InferenceOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function.

    Raises:
        InsecureSettingsError: the inference token is not safe.
        InvalidNetworkError: the network's file cannot be read, or is not a network.
        ValueError: detectors are to be diagnosed, and the file does not say when lanes are green.
    """
    require_shared_store()
    network = configured_network(args.network, whole=args.diagnose_detectors)
    diagnoses_of(network, args.diagnose_detectors)  # before anything is started
    settings = Settings()
    application: Application = Inference.bind(  # type: ignore[attr-defined]
        args,
        agent_path=str(resolved(args.agent_path or settings.mappo_agent_path)),
        open_store=open_configured_store,
        observability=configured_observability(settings),
        open_tokens=configured_tokens(settings),
        network=network,
    )
    return application
