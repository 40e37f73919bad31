"""Builder of the console application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from ray.serve import Application

from deployments.console.deployment import Console
from deployments.console.options import ConsoleOptions
from serve_app.configured_network import configured_network
from serve_app.configured_replicas import open_configured_store
from serve_app.identity.first_user import configured_users
from serve_app.identity.keys import ConfiguredKeys, check_keys
from serve_app.settings import Settings


def build(args: ConsoleOptions) -> Application:
    """Build the application; ``import_path`` in the serve config names this function.

    Raises:
        InsecureSettingsError: the console asks for a login, and there is no safe signing key.
        InvalidNetworkError: the network's file cannot be read, or is not a network.
    """
    settings = Settings()
    if args.login:
        check_keys(settings)  # before anything is started
    application: Application = Console.bind(  # type: ignore[attr-defined]
        args,
        open_keys=ConfiguredKeys,
        users=configured_users(settings) if args.login else {},
        open_store=open_configured_store,
        network=configured_network(args.network, whole=True),
    )
    return application
