"""Private API of Ray Serve."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray._common.formatters import JSONFormatter
from ray._common.network_utils import build_address
from ray.serve._private import replica as serve_replica
from ray.serve._private.common import ReplicaState as State
from ray.serve._private.constants import RAY_SERVE_HAPROXY_CONFIG_FILE_LOC, SERVE_LOGGER_NAME
from ray.serve._private.logging_utils import ServeContextFilter
from ray.serve.context import _get_global_client, _get_internal_replica_context

from deployments.log import Fields, RateLimitFilter


class Front(NamedTuple):
    """Where the HTTP fronts listen on every node, and the route prefix of each application."""

    host: str | None
    port: int
    routes: Mapping[str, str]


async def read_front() -> Front:
    """Ask Serve for its HTTP fronts.

    ``serve.status`` has neither address nor routes. The dashboard has both, but a replica knows
    neither its address nor its token.
    """
    client = await asyncio.to_thread(_get_global_client)
    endpoints = await client._controller.get_all_endpoints.remote()
    routes = {
        deployment.app_name: endpoint["route"]
        for deployment, endpoint in endpoints.items()
        if endpoint["route"]
    }
    return Front(client.http_config.host, client.http_config.port, routes)


def read_front_configuration() -> str:
    """Return what Serve has written for the HAProxy of this node; nothing if it has none."""
    folder, name = os.path.split(RAY_SERVE_HAPROXY_CONFIG_FILE_LOC)
    node = ray.get_runtime_context().get_node_id()
    try:
        return Path(folder, node, name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def prepare_log() -> None:
    """Add context and rate limits to this replica's log, and ignore errors of logging.

    Serve names requests only with its access log, and applications only within a request. Errors of
    logging, as on a full disk, would be written to stderr, which Serve writes to the log again.
    """
    logging.raiseExceptions = False
    logger = logging.getLogger(SERVE_LOGGER_NAME)
    if any(isinstance(each, ServeContextFilter) for each in logger.filters):
        return
    replica = _get_internal_replica_context()
    fields = {"application": replica.app_name} if replica else {}
    for each in (RateLimitFilter(), ServeContextFilter(), Fields(writes_json, **fields)):
        logger.addFilter(each)


def writes_json() -> bool:
    """Return whether Serve writes the lines of this replica as JSON: ``encoding: JSON``."""
    handlers = logging.getLogger(SERVE_LOGGER_NAME).handlers
    forms = [getattr(each, "target", each).formatter for each in handlers]
    return any(isinstance(form, JSONFormatter) for form in forms)


class ReplicaState(NamedTuple):
    """A replica, as the controller knows it; ``state`` is a name of Serve's ``ReplicaState``."""

    app: str
    deployment: str
    id: str
    state: str


async def read_replicas() -> list[ReplicaState]:
    """Ask Serve's controller for all replicas; ``serve.status`` only counts them."""
    client = await asyncio.to_thread(_get_global_client)
    return replicas_of(await client._controller.get_serve_instance_details.remote())


def replicas_of(details: Mapping[str, Any]) -> list[ReplicaState]:
    """Return the replicas in the controller's details of Serve."""
    return [
        ReplicaState(app, deployment, replica["replica_id"], State(replica["state"]).value)
        for app, application in details["applications"].items()
        for deployment, deployed in application["deployments"].items()
        for replica in deployed["replicas"]
    ]


_EVERYWHERE = "[::]:0"


def keep_calls_inside() -> None:
    """Accept calls of this replica at Ray's address of this node only.

    Serve would listen on every address and unpickle what it receives, which can run code; without
    Ray's token, of every client. Call this before the replica is initialized.
    """
    listen = serve_replica.add_port_to_grpc_server

    def listen_inside(server: Any, address: str) -> Any:
        if address == _EVERYWHERE:
            address = build_address(ray.util.get_node_ip_address(), 0)
        return listen(server, address)

    serve_replica.add_port_to_grpc_server = listen_inside
