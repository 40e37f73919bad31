"""The body of a prediction and of its answer, as one would first write them."""

from pydantic import BaseModel


class PredictionRequest(BaseModel):
    junction_id: str
    obs_data: list[float]


class Prediction(BaseModel):
    junction_id: str
    action: int
    confidence: float
