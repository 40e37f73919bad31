"""The console's deployment: wires the service into a Serve replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import FastAPI
from ray import serve

from deployments.access.audit import PERIOD_S as NOTED_S
from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.keys import Keys
from deployments.access.refresher import Refresher, start_refresher
from deployments.access.revocations import Revocations, UserRule
from deployments.access.service_tokens import ServiceTokenRule
from deployments.access.tokens import Tokens
from deployments.console.api import create_app
from deployments.console.options import ConsoleOptions
from deployments.console.replicas import Replica
from deployments.console.service import ConsoleService
from deployments.feed.actor import create_feed, give_way
from deployments.ray_private.serve import keep_calls_inside, prepare_log, read_replicas
from deployments.store import Store
from models.junctions import SHIPPED
from models.networks.network import Network

_CLOCK_SKEW_S = 5.0


@serve.deployment(name="Console")
@serve.ingress()
class Console:
    """One replica: shows browsers what the services tell the feed, which it keeps alive.

    Args:
        open_keys: returns what reads the keys of the gateway's tokens, to be called where they are
            used: Ray keeps what is bound to a deployment.
        users: those of the gateway's configuration, with what is kept of their passwords.
        open_store: opens the store, which has the others.
        network: with what its file says of drawing.
    """

    async def __init__(  # type: ignore[misc]
        self,
        options: ConsoleOptions,
        open_keys: Callable[[], Callable[[], Keys]],
        users: Mapping[str, str],
        open_store: Callable[[], Store],
        network: Network = SHIPPED,
    ) -> None:
        prepare_log()
        keep_calls_inside()
        give_way()
        self._options = options
        tokens = self._access = self._store = self._audit = audit = None
        if options.login:
            read_keys = open_keys()
            self._store = open_store()
            rules = [UserRule(self._store, users), ServiceTokenRule(self._store)]
            tokens = Tokens(
                read_keys(),
                0,
                _CLOCK_SKEW_S,
                revocations=Revocations(rules),
                unchecked=["read"] if options.look_while_unchecked else [],
            )
            self._access = await start_refresher(tokens, read_keys)
            audit = AuditBuffer(AuditLog(self._store))
            self._audit = Refresher({"The audit log": audit.flush}, NOTED_S)
        self._service = ConsoleService(options, tokens, create_feed, _read_replicas, audit, network)
        await self._service.start()

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service, trust_forwarded_for=self._options.trust_forwarded_for)

    def check_health(self) -> None:
        for task in filter(None, (self._access, self._audit)):
            task.check_health()
        self._service.check_health()

    async def __del__(self) -> None:
        for task in filter(None, (self._access, self._audit)):
            task.stop()
        await self._service.close()
        if self._store is not None:
            await self._store.close()


async def _read_replicas() -> list[Replica]:
    return [Replica(*each) for each in await read_replicas()]
