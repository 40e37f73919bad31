"""The flow forecast as it is served: scales, network, and a calibrated confidence.

In NumPy, without PyTorch; a test keeps it equal to :mod:`lab.train.forecasts.networks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from models.artifacts import Card, ColumnScale, InvalidArtifactError, Tensors, read_artifact
from models.flow.window import FEATURES, HORIZON
from models.lstm import Lstm, shapes_of_lstm
from models.networks.shipped import JUNCTIONS

HEAD_DIM = 32
MAX_SCALED = 8.0  # no training value is further out; the network would only extrapolate
_MAX_FLOAT32 = 1e30  # what is beyond would overflow; the network takes it for "very much" anyhow

Floats = NDArray[np.float64]


class Calibration(BaseModel):
    """From the network's scale to ``sigmoid(slope * log(tolerance / scale) + offset)``.

    The event is that the forecast is off by no more than the tolerance, which is the larger of
    ``vehicles`` per minute and ``share`` of the forecast.

    Attributes:
        observed, offsets: knots of the offset as a function of the number of observed minutes;
            it strictly rises, so that with less data the same forecast has less confidence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    vehicles: float
    share: float
    slope: float = Field(gt=0)
    observed: tuple[int, ...]
    offsets: tuple[float, ...]

    @model_validator(mode="after")
    def _offsets_rise(self) -> Self:
        knots = np.array([self.observed, self.offsets])
        if not self.observed or (np.diff(knots) <= 0).any():
            raise ValueError("observed and offsets must both strictly rise")
        return self

    def tolerance(self, flows: Floats) -> Floats:
        """Return the error up to which a forecast of these vehicles per minute counts as right."""
        return np.maximum(self.vehicles, self.share * flows)

    def confidence(self, flows: Floats, scales: Floats, observed: NDArray[np.int64]) -> Floats:
        """Return the probability of the event, for (B,) forecasts and scales in vehicles/min."""
        offsets = np.interp(observed, self.observed, self.offsets)
        log_odds = self.slope * np.log(self.tolerance(flows) / scales) + offsets
        return 1.0 / (1.0 + np.exp(-np.clip(log_odds, -30.0, 30.0)))


class FlowConfig(BaseModel):
    """Configuration inside the artifact.

    Attributes:
        junctions: ids in the order of the network's one-hot input.
        scales: by junction id, then by feature name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden_dim: int = Field(ge=1, le=1024)
    junctions: tuple[str, ...] = Field(min_length=1)
    scales: dict[str, dict[str, ColumnScale]]
    calibration: Calibration

    @model_validator(mode="after")
    def _every_column_has_a_scale(self) -> Self:
        complete = all(set(scales) == set(FEATURES) for scales in self.scales.values())
        if not complete or not set(self.junctions) == set(self.scales) == set(JUNCTIONS):
            raise ValueError("every junction of the table needs the scale of every feature")
        return self

    def table(self, name: str) -> Floats:
        """Return (junctions, features): one number of every scale."""
        return np.array(
            [[getattr(self.scales[j][f], name) for f in FEATURES] for j in self.junctions]
        )


class FlowForecasts(NamedTuple):
    """(B,) vehicles per minute, mean of the next fifteen minutes; (B,) confidence, 0 to 1."""

    flows: Floats
    confidences: Floats


class FlowForecaster:
    """A trained network with its scales and calibration.

    Attributes:
        rows: by junction id, its row in the tables and its one-hot bit.
        card: where the network comes from.
        low, high: (junctions, 3) range of each feature in training.
    """

    def __init__(self, tensors: Tensors, config: FlowConfig, card: Card) -> None:
        self.rows = {junction: row for row, junction in enumerate(config.junctions)}
        self.card, self.calibration = card, config.calibration
        self.low, self.high = config.table("low"), config.table("high")
        self._mean, self._std = config.table("mean"), config.table("std")
        n = config.hidden_dim
        self._lstm = Lstm(tensors)
        # the junction's one-hot picks a row: what is the same for all its forecasts
        self._hidden = np.ascontiguousarray(tensors["hidden.weight"].T[:n])
        self._of_junction = tensors["hidden.weight"].T[n:] + tensors["hidden.bias"]
        self._head, self._head_bias = tensors["head.weight"].T.copy(), tensors["head.bias"]

    @property
    def target_accuracy(self) -> str:
        """What the confidence speaks of, and how often it was so on the test days."""
        vehicles, share = self.calibration.vehicles, self.calibration.share
        reached = self.card.metrics["within_tolerance"]
        return (
            f"off by at most {vehicles:g} per minute or {share:.0%} of the forecast, whichever is "
            f"more; reached by {reached:.1%} of the forecasts on the test days"
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read an artifact.

        Raises:
            InvalidArtifactError: the files cannot be served.
        """
        tensors, config, card = read_artifact(path, FlowConfig, shapes_of)
        if not isinstance(card.metrics.get("within_tolerance"), int | float):
            raise InvalidArtifactError(f"the card of {path} does not tell within_tolerance")
        return cls(tensors, config, card)

    def __call__(
        self, windows: Floats, rows: NDArray[np.int64], observed: NDArray[np.int64]
    ) -> FlowForecasts:
        """Forecast for B windows.

        Args:
            windows: (B, 60, 3) features, oldest minute first.
            rows: (B,) the junction of each window.
            observed: (B,) how many of its minutes were observed.
        """
        flows, scales = self.outlook(windows, rows)
        return FlowForecasts(flows, self.calibration.confidence(flows, scales, observed))

    def outlook(self, windows: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return (B,) vehicles per minute, and the (B,) scale of their uncertainty in that unit."""
        mean, std = self._mean[rows], self._std[rows]
        scaled = np.minimum((windows - mean[:, None]) / std[:, None], _MAX_FLOAT32)
        median, log_scales = self._network(scaled.astype(np.float32), rows)
        flows = np.maximum(median * std[:, 0] + mean[:, 0], 0.0)
        return flows, np.exp(log_scales.clip(-10.0, 10.0)) * std[:, 0]

    def _network(
        self, scaled: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return (B,) median and logarithm of the scale, both scaled."""
        last = self._lstm(scaled.clip(-MAX_SCALED, MAX_SCALED))
        features = np.maximum(last @ self._hidden + self._of_junction[rows], 0.0)
        change, log_scales = (features @ self._head + self._head_bias).T
        return scaled[:, -HORIZON:, 0].mean(axis=1) + change, log_scales


def shapes_of(config: FlowConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of the network."""
    return {
        **shapes_of_lstm(len(FEATURES), config.hidden_dim),
        "hidden.weight": (HEAD_DIM, config.hidden_dim + len(config.junctions)),
        "hidden.bias": (HEAD_DIM,),
        "head.weight": (2, HEAD_DIM),
        "head.bias": (2,),
    }
