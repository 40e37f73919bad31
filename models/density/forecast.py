"""The density forecast as it is served: NumPy, without PyTorch.

A test keeps this equal to :mod:`lab.train.forecasts.networks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from models.artifacts import Card, ColumnScale, Tensors, read_artifact
from models.lstm import Lstm, shapes_of_lstm

N_HOURS = 3
N_EDGES = 5
MAX_SCALED = 8.0  # no training value is further out; the network would only extrapolate


class DensityConfig(BaseModel):
    """Configuration inside the artifact.

    Attributes:
        edges: ids of the input and output columns, in their order.
        scales: by edge id, so that no column can take another's scale.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden_dim: int = Field(ge=1, le=1024)
    edges: tuple[str, ...] = Field(min_length=N_EDGES, max_length=N_EDGES)
    scales: dict[str, ColumnScale]

    @model_validator(mode="after")
    def _every_edge_has_a_scale(self) -> Self:
        if len(set(self.edges)) != N_EDGES or set(self.edges) != set(self.scales):
            raise ValueError(f"edges {self.edges} and scales of {sorted(self.scales)} differ")
        return self

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one number of every edge's scale, in the order of the edges."""
        return np.array([getattr(self.scales[edge], name) for edge in self.edges])


class DensityForecaster:
    """A trained network with its scales.

    Attributes:
        edges: edge ids of the columns.
        card: where the network comes from.
        low, high: (5,) range of each column in training.
    """

    def __init__(self, tensors: Tensors, config: DensityConfig, card: Card) -> None:
        self.edges, self.card = config.edges, card
        self.low, self.high = config.column("low"), config.column("high")
        self._mean, self._std = config.column("mean"), config.column("std")
        self._lstm = Lstm(tensors)
        self._head, self._head_bias = tensors["head.weight"].T.copy(), tensors["head.bias"]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read an artifact.

        Raises:
            InvalidArtifactError: the files cannot be served.
        """
        return cls(*read_artifact(path, DensityConfig, shapes_of))

    def __call__(self, densities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Forecast (B, 5) vehicles/km of the next hour from (B, 3, 5), oldest hour first."""
        scaled = np.clip((densities - self._mean) / self._std, -MAX_SCALED, MAX_SCALED)
        change = self._lstm(scaled.astype(np.float32)) @ self._head + self._head_bias
        forecast: NDArray[np.float64] = np.maximum(densities[:, -1] + change * self._std, 0.0)
        return forecast


def shapes_of(config: DensityConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of the network."""
    return {
        **shapes_of_lstm(N_EDGES, config.hidden_dim),
        "head.weight": (N_EDGES, config.hidden_dim),
        "head.bias": (N_EDGES,),
    }
