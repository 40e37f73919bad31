"""The calls of the two forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from greenwave.client.call import Call
from greenwave.client.errors import InvalidInputError
from greenwave.client.inputs import items, numbers, text
from greenwave.client.results import (
    DensityForecast,
    DensityHealth,
    DensityInfo,
    FlowForecast,
    FlowHealth,
    FlowInfo,
    Sample,
)
from greenwave.client.service import Mode, ProbedService, operation, reading


class Density(ProbedService[Mode]):
    """The density on five road edges in the next hour."""

    prefix = "/density"

    @operation
    def predict(self, hours: Iterable[Sequence[float]]) -> Call[DensityForecast]:
        """Forecast the next hour.

        Args:
            hours: three, oldest first, of five edges each; vehicles per kilometre.
        """
        data = [numbers(hour, f"hours[{at}]") for at, hour in enumerate(items(hours, "hours"))]
        return self._call("POST", "/predict", reading(DensityForecast), json={"data": data})

    @operation
    def health(self) -> Call[DensityHealth]:
        """Return whether a model is loaded."""
        return self._get("/health", DensityHealth)

    @operation
    def model_info(self) -> Call[DensityInfo]:
        """Return the model's shapes, its edges, and its errors on unseen days."""
        return self._get("/model-info", DensityInfo)


class Flow(ProbedService[Mode]):
    """The vehicle flow at a junction in the next 15 minutes."""

    prefix = "/flow"

    @operation
    def forecast(self, junction: str, samples: Iterable[Sample]) -> Call[FlowForecast]:
        """Forecast the mean flow of the next 15 minutes.

        Args:
            samples: one a minute, oldest first; the newest 60 count.
        """
        body = {
            "junction_id": text(junction, "junction"),
            "historical_data": [_sample(each)._asdict() for each in items(samples, "samples")],
        }
        return self._call("POST", "/forecast", reading(FlowForecast), json=body)

    @operation
    def health(self) -> Call[FlowHealth]:
        """Return whether a model is loaded."""
        return self._get("/health", FlowHealth)

    @operation
    def model_info(self) -> Call[FlowInfo]:
        """Return the model's version, windows and junctions."""
        return self._get("/model_info", FlowInfo)


def _sample(values: Sample) -> Sample:
    """Return a sample as such, which may come as any sequence of its values."""
    try:
        return Sample(*values)
    except TypeError:
        raise InvalidInputError(
            f"A sample has {', '.join(Sample._fields)}, not {values!r:.50}"
        ) from None
