"""Writes docs/openapi: each service's document, without starting it (``make reference``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from fastapi import FastAPI

from deployments.customers import record_types
from deployments.customers.records.api import create_app as create_records
from deployments.customers.records.service import RecordService
from deployments.density.service import DensityService
from deployments.flow.service import FlowService
from deployments.forecast.api import create_app as create_forecast
from deployments.gateway.api import create_app as create_gateway
from deployments.gateway.service import GatewayService
from deployments.inference.api import create_app as create_inference
from models.networks.shipped import SHIPPED

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "openapi"

Document = dict[str, Any]

# Routes are declared around a service, which a document never calls.
_NO_SERVICE: Any = Mock(network=SHIPPED)


def documents() -> dict[str, Document]:
    """Return the documents by service, as the code declares them in any environment.

    Paths are relative to the service's prefix, as in the document that the service answers with.
    """
    return {name: app.openapi() for name, app in apps()}


def rendered(document: Document) -> str:
    """Return the text of a document, the same for the same declarations."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def apps() -> Iterator[tuple[str, FastAPI]]:
    """Yield each service's name and its application, which can describe itself but not answer."""
    yield "inference", create_inference(_NO_SERVICE)
    gateway = GatewayService(_NO_SERVICE, _NO_SERVICE, _NO_SERVICE)
    yield "gateway", create_gateway(gateway)
    yield "density", create_forecast(DensityService())
    yield "flow", create_forecast(FlowService())
    for name, record_type in record_types().items():
        yield name, create_records(RecordService(record_type, _NO_SERVICE))


if __name__ == "__main__":
    for name, document in documents().items():
        (FOLDER / f"{name}.json").write_text(rendered(document), encoding="utf-8")
