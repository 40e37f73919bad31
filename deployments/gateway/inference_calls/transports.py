"""Which way to the inference service the options ask for."""

from __future__ import annotations

import os

from deployments.gateway import EDGE_VARIABLE
from deployments.gateway.inference_calls.address import find_base_url
from deployments.gateway.inference_calls.client import Transport
from deployments.gateway.inference_calls.http_transport import HttpTransport, base_of
from deployments.gateway.options import GatewayOptions
from models.junctions import N_ACTIONS


def make_transport(
    options: GatewayOptions,
    inference_url: str | None,
    token: str | None = None,
    n_actions: int = N_ACTIONS,
) -> Transport:
    """Return a transport that opens its connections when they are first needed.

    Args:
        inference_url: full ``/predict_action`` URL; None calls ``options.inference_app``.
        token: that the inference service asks for, if it does.
        n_actions: of the network.
    """
    application, deadline_s = options.inference_app, options.deadline_s
    if inference_url is not None:
        base = base_of(inference_url)

        async def configured() -> str:
            return base

        return HttpTransport(configured, deadline_s, False, token, n_actions)
    edge_url = os.environ.get(EDGE_VARIABLE)
    return HttpTransport(
        lambda: find_base_url(application, edge_url), deadline_s, True, token, n_actions
    )
