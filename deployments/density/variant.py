"""The declaration of Variant A."""

from __future__ import annotations

from deployments.density.schemas import PREDICTION_REQUEST, Health, ModelInfo, Prediction
from deployments.density.service import DensityService
from deployments.forecast.routes import declared_errors
from deployments.forecast.variant import Variant

DENSITY = Variant(
    name="density",
    description="Traffic density of five road edges in the next hour, from three hourly"
    " measurements.",
    service=DensityService,
    path="/predict",
    operation={
        "name": "predict",
        "summary": "Density of the next hour",
        "description": "Forecast the next hour of five edges from their last three hours.",
        "response_model": Prediction,
        "responses": declared_errors(400, 408, 413, 500, 503),
        "openapi_extra": PREDICTION_REQUEST,
    },
    health=Health,
    info_path="/model-info",
    info=ModelInfo,
    info_description="The model's shapes, edges, and errors on held-out days.",
    counted_by="edges",
    drift_of="edge",
)
