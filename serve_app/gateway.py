"""Builder of the gateway application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.gateway.deployment import Gateway
from deployments.gateway.fallbacks import configured_plan
from deployments.gateway.inference_calls.address import base_of
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import make_guard
from serve_app.configured_network import configured_network
from serve_app.configured_replicas import (
    configured_observability,
    open_configured_store,
    require_shared_store,
)
from serve_app.identity.first_user import configured_users
from serve_app.identity.inference_token import configured_tokens
from serve_app.identity.keys import ConfiguredKeys, check_keys
from serve_app.settings import Settings


def build(args: GatewayOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function.

    Raises:
        InsecureSettingsError: there is no safe signing key, or no safe inference token.
        InvalidNetworkError: the network's file cannot be read, or is not a network.
        ValueError: the inference URL, the plan, or a limit of the safety layer is not valid for
            the network.
    """
    require_shared_store()
    network = configured_network(args.network, whole=args.safety)
    make_guard(args, network)  # before anything is started
    settings = Settings()
    if settings.rl_inference_service_url is not None:
        base_of(settings.rl_inference_service_url)
    check_keys(settings)  # before anything is started
    application: Application = Gateway.bind(  # type: ignore[attr-defined]
        args,
        open_keys=ConfiguredKeys,
        token_lifetime_s=settings.jwt_expiration_minutes * 60,
        users=configured_users(settings),
        open_store=open_configured_store,
        inference_url=settings.rl_inference_service_url,
        plan=configured_plan(args, network),
        observability=configured_observability(settings),
        open_tokens=configured_tokens(settings),
        network=network,
    )
    return application
