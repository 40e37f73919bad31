"""The console deployment: wires the service into a Serve replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import FastAPI
from ray import serve

from deployments.access.control import AccessControl
from deployments.access.keys import Keys
from deployments.console.api import create_app
from deployments.console.options import ConsoleOptions
from deployments.console.replicas import Replica
from deployments.console.service import ConsoleService
from deployments.feed.actor import create_feed, lower_priority
from deployments.ray_private.serve import read_replicas
from deployments.replica import ReplicaBase
from deployments.store import Store
from models.networks.network import Network


@serve.deployment(name="Console")
@serve.ingress()
class Console(ReplicaBase):
    """One replica: shows browsers what the services report to the feed, which it owns.

    Args:
        open_keys: returns the function that reads the signing keys, in the replica: Ray stores what
            is bound to a deployment.
        users: names and password hashes from the configuration; the others are in the store.
        open_store: opens the store.
        network: that is shown.
    """

    async def __init__(  # type: ignore[misc]
        self,
        options: ConsoleOptions,
        open_keys: Callable[[], Callable[[], Keys]],
        users: Mapping[str, str],
        open_store: Callable[[], Store],
        network: Network,
    ) -> None:
        super().__init__()
        lower_priority()
        access = None
        if options.login:
            store = open_store()
            access = AccessControl.of_store(store, users, open_keys())
            self.stop_at_end(*await access.start())
            self.close_at_end(access.close, store.close)
        self._service = ConsoleService(access, create_feed, _read_replicas, network)
        self.close_at_end(self._service.close)
        await self._service.hold_feed()
        self.checks |= self._service.checks

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service, self.probes)


async def _read_replicas() -> list[Replica]:
    return [Replica(*each) for each in await read_replicas()]
