"""The calls of the two forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from greenwave.client.call import Call, Effect
from greenwave.client.errors import InvalidInputError
from greenwave.client.inputs import JSON, items, json_bytes, numbers, text
from greenwave.client.results import (
    DensityForecast,
    DensityHealth,
    DensityInfo,
    FlowForecast,
    FlowHealth,
    FlowInfo,
    Form,
    Sample,
)
from greenwave.client.service import Probed, get

AnyForm = TypeVar("AnyForm", bound=Form)


@dataclass(frozen=True, slots=True)
class DensityCalls(Probed):
    """The density on five road edges in the next hour."""

    url: str

    @property
    def root(self) -> str:
        return f"{self.url}/density"

    def predict(self, hours: Iterable[Sequence[float]]) -> Call[DensityForecast]:
        """Forecast the next hour.

        Args:
            hours: three, oldest first, of five edges each; vehicles per kilometre.
        """
        data = [numbers(hour, f"hours[{at}]") for at, hour in enumerate(items(hours, "hours"))]
        return _post(f"{self.root}/predict", {"data": data}, DensityForecast)

    def health(self) -> Call[DensityHealth]:
        """Return whether a model is loaded."""
        return get(f"{self.root}/health", DensityHealth)

    def model_info(self) -> Call[DensityInfo]:
        """Return the model's shapes, its edges, and its errors on unseen days."""
        return get(f"{self.root}/model-info", DensityInfo)


@dataclass(frozen=True, slots=True)
class FlowCalls(Probed):
    """The vehicle flow at a junction in the next 15 minutes."""

    url: str

    @property
    def root(self) -> str:
        return f"{self.url}/flow"

    def forecast(self, junction: str, samples: Iterable[Sample]) -> Call[FlowForecast]:
        """Forecast the mean flow of the next 15 minutes.

        Args:
            samples: one a minute, oldest first; the newest 60 count.
        """
        body = {
            "junction_id": text(junction, "junction"),
            "historical_data": [_sample(each)._asdict() for each in items(samples, "samples")],
        }
        return _post(f"{self.root}/forecast", body, FlowForecast)

    def health(self) -> Call[FlowHealth]:
        """Return whether a model is loaded."""
        return get(f"{self.root}/health", FlowHealth)

    def model_info(self) -> Call[FlowInfo]:
        """Return the model's version, windows and junctions."""
        return get(f"{self.root}/model_info", FlowInfo)


def _sample(values: Sample) -> Sample:
    """Return a sample as such, which may come as any sequence of its values."""
    try:
        return Sample(*values)
    except TypeError:
        raise InvalidInputError(
            f"A sample has {', '.join(Sample._fields)}, not {values!r:.50}"
        ) from None


def _post(url: str, body: object, form: type[AnyForm]) -> Call[AnyForm]:
    return Call(
        method="POST",
        url=url,
        effect=Effect.NONE,
        headers=JSON,
        body=json_bytes(body),
        read=lambda reply: form.model_validate_json(reply.body),
    )
