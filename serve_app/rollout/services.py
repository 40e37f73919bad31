"""The services that a serve config can name, and what each of them reads from it."""

from __future__ import annotations

from typing import NamedTuple

from deployments.console.options import ConsoleOptions
from deployments.customers.records.deployment import RecordOptions
from deployments.forecast.deployment import ForecastUserConfig
from deployments.gateway.options import GatewayOptions
from deployments.inference.options import InferenceOptions, InferenceUserConfig
from deployments.options import Options


class Service(NamedTuple):
    """One service.

    Attributes:
        module: its builder's, in ``import_path``.
        options: model of ``args`` in its applications.
        deployment: name of its only deployment.
        user_config: model of the deployment's ``user_config``, if it has one.
    """

    title: str
    module: str
    options: type[Options]
    deployment: str
    user_config: type[Options] | None = None


SERVICES = (
    Service("Inference", "serve_app.inference", InferenceOptions, "Inference", InferenceUserConfig),
    Service("Gateway", "serve_app.gateway", GatewayOptions, "Gateway"),
    Service("Density", "serve_app.density", Options, "Density", ForecastUserConfig),
    Service("Flow", "serve_app.flow", Options, "Flow", ForecastUserConfig),
    Service("Customer records", "serve_app.customers", RecordOptions, "CustomerRecords"),
    Service("Console", "serve_app.console", ConsoleOptions, "Console"),
)
