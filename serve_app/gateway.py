"""Builder of the gateway application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.gateway.deployment import Gateway
from deployments.gateway.fallbacks import configured_plan
from deployments.gateway.inference_calls.http_transport import base_of
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import limits_of, make_guard
from serve_app.configured_store import open_configured_store, require_shared_store
from serve_app.configured_tracing import configured_tracing
from serve_app.credentials.first_user import configured_users
from serve_app.credentials.inference_token import configured_tokens
from serve_app.credentials.key_ring import ConfiguredKeys, check_keys
from serve_app.settings import Settings


def build(args: GatewayOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function.

    Raises:
        InsecureSettingsError: no safe signing key, or no safe token of the inference service.
        ValueError: the inference URL, the plan, or a limit of the safety layer is not valid.
    """
    require_shared_store()
    if args.safety:
        make_guard(limits_of(args))  # refuses limits that cannot be kept before anything is started
    settings = Settings()
    if settings.rl_inference_service_url is not None:
        base_of(settings.rl_inference_service_url)
    check_keys(settings)  # refuses unsafe ones before anything is started
    application: Application = Gateway.bind(  # type: ignore[attr-defined]
        args,
        open_keys=ConfiguredKeys,
        token_lifetime_s=settings.jwt_expiration_minutes * 60,
        users=configured_users(settings),
        open_store=open_configured_store,
        inference_url=settings.rl_inference_service_url,
        plan=configured_plan(args),
        access_log_share=settings.access_log_share,
        tracing=configured_tracing(),
        open_tokens=configured_tokens(settings),
    )
    return application
