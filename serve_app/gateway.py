"""Builder of the gateway application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.gateway.deployment import Gateway
from deployments.gateway.inference_calls.http_transport import base_of
from deployments.gateway.options import GatewayOptions
from serve_app.configured_store import open_configured_store, require_shared_store
from serve_app.credentials.first_user import configured_users
from serve_app.credentials.signing_key import configured_signing_key, signing_key
from serve_app.settings import Settings


def build(args: GatewayOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function.

    Raises:
        InsecureSettingsError: no safe signing key.
        ValueError: the inference URL is not valid.
    """
    require_shared_store()
    settings = Settings()
    if settings.rl_inference_service_url is not None:
        base_of(settings.rl_inference_service_url)
    signing_key(settings)  # refuses an unsafe one before anything is started
    application: Application = Gateway.bind(  # type: ignore[attr-defined]
        args,
        read_secret=configured_signing_key,
        token_lifetime_s=settings.jwt_expiration_minutes * 60,
        users=configured_users(settings),
        open_store=open_configured_store,
        inference_url=settings.rl_inference_service_url,
    )
    return application
