"""Of Ray Serve."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

# The strict check of a config has to find a builder exactly as Serve will find it.
from ray._common.utils import import_attr as import_attr
from ray.serve._private.constants import SERVE_LOGGER_NAME
from ray.serve._private.logging_utils import ServeContextFilter
from ray.serve.context import _get_global_client


class Front(NamedTuple):
    """Where the HTTP fronts listen on every node, and the route prefix of each application."""

    host: str | None
    port: int
    routes: Mapping[str, str]


async def read_front() -> Front:
    """Ask Serve where its HTTP fronts are.

    ``serve.status`` tells neither address nor routes. The dashboard tells both, but a replica knows
    neither where the dashboard is nor the token that it may ask for.
    """
    client = await asyncio.to_thread(_get_global_client)
    endpoints = await client._controller.get_all_endpoints.remote()
    routes = {
        deployment.app_name: endpoint["route"]
        for deployment, endpoint in endpoints.items()
        if endpoint["route"]
    }
    return Front(client.http_config.host, client.http_config.port, routes)


def prepare_log() -> None:
    """Have the lines of this replica's log name their request, and let no line fail its writer.

    Serve itself names requests only where it logs every access. And where a line cannot be written,
    as on a full disk, logging tells so on stderr, which Serve writes to the same log, without end.
    """
    logging.raiseExceptions = False
    logger = logging.getLogger(SERVE_LOGGER_NAME)
    if not any(isinstance(each, ServeContextFilter) for each in logger.filters):
        logger.addFilter(ServeContextFilter())
