"""The declaration of Variant B."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from deployments.flow.schemas import Forecast, ForecastRequest, Health, ModelInfo
from deployments.flow.service import FlowService
from deployments.forecast.routes import declared_errors
from deployments.forecast.variant import Variant


def _request_body() -> dict[str, Any]:
    schema = TypeAdapter(ForecastRequest).json_schema()
    sample = schema.pop("$defs")["Sample"]
    schema["properties"]["historical_data"]["items"] = sample
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


FLOW = Variant(
    name="flow",
    description="""Vehicle flow at a junction in the next 15 minutes, from one-minute measurements.

Timestamps may be of any past time, as those of a simulation, but not of the future.""",
    service=FlowService,
    path="/forecast",
    operation={
        "name": "forecast",
        "summary": "Flow of the next 15 minutes",
        "description": "Forecast a junction's mean flow; gaps and short histories lower the "
        "confidence.",
        "response_model": Forecast,
        "responses": declared_errors(400, 404, 408, 413, 500, 503),
        "openapi_extra": _request_body(),
    },
    health=Health,
    info_path="/model_info",
    info=ModelInfo,
    info_description="The model's version, windows, junctions and accuracy.",
    counted_by="junction",
    drift_of="feature",
)
