"""The same models on what users would pick instead, each as its own documentation shows it.

The bodies of predictions are here, because this module imports nothing large.
"""

from pydantic import BaseModel


class PredictionRequest(BaseModel):
    junction_id: str
    obs_data: list[float]


class Prediction(BaseModel):
    junction_id: str
    action: int
    confidence: float
