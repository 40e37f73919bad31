"""A forecast service without HTTP and Ray: what is the same for every model."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from deployments.feed.messages import FlowForecast
from deployments.feed.publisher import WatchedEvents
from deployments.forecast.batcher import Batcher
from deployments.forecast.errors import ModelNotLoadedError
from deployments.metrics.sampled import Sampled
from deployments.model_slot import ModelSlot
from models.artifacts import InvalidArtifactError

Model = TypeVar("Model")
Question = TypeVar("Question")
Inputs = TypeVar("Inputs")
Outputs = TypeVar("Outputs")

MAX_FORECASTS = 20


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Declaration of one forecast application."""

    name: str
    """The first part of its metrics' names; as a title, the name of its deployment."""

    description: str

    path: str
    """Of the route that predicts."""

    max_body: int
    """Bytes of its request's body."""

    operation: Mapping[str, Any]
    """What the document says of that route: further arguments of ``FastRoutes.add``."""

    health: type[BaseModel]

    info_path: str
    """Of the route that describes the model."""

    info: type[BaseModel]
    info_description: str

    counted_by: str
    """Metric tag of a prediction's target."""

    drift_of: str
    """Metric tag of an input's column."""

    @property
    def deployment(self) -> str:
        return self.name.title()


class ForecastService(ABC, Generic[Model, Question, Inputs, Outputs]):
    """Reads requests, forecasts in batches, and describes its model.

    A subclass reads a request, runs the model on a batch, and writes the answers.
    """

    variant: ClassVar[Variant]

    def __init__(self) -> None:
        self.slot: ModelSlot[Model] = ModelSlot("model", self.read, InvalidArtifactError)
        self.counts: ForecastCounts[Inputs] = ForecastCounts(self._drift_of_served)
        self.watched: WatchedEvents[FlowForecast] = WatchedEvents(MAX_FORECASTS)
        self._batcher: Batcher[Question, bytes] = Batcher(self._run)

    async def predict(self, body: bytes) -> bytes:
        """Answer a request for a forecast.

        Raises:
            RefusedError: with the status and the detail of the answer.
        """
        question = self.parse(body)
        self._served()
        return await self._batcher.submit(question)

    def _served(self) -> Model:
        if self.slot.model is None:
            raise ModelNotLoadedError
        return self.slot.model

    def _run(self, questions: list[Question]) -> Sequence[bytes]:
        model = self._served()
        started = time.perf_counter()
        inputs = self.stack(model, questions)
        outputs = self.forecast(model, inputs)
        self.counts.batch(len(questions), time.perf_counter() - started, inputs)
        self.counts.predictions.update(map(self.target, questions))
        return self.answers(model, questions, outputs)

    def _drift_of_served(self, inputs: list[Inputs]) -> Mapping[str, float]:
        return {} if self.slot.model is None else self.drift(self.slot.model, inputs)

    @staticmethod
    @abstractmethod
    def read(path: Path) -> Model:
        """Read a model's file and make it ready for its first request.

        Raises:
            InvalidArtifactError: the file cannot be served.
        """

    @abstractmethod
    def parse(self, body: bytes) -> Question:
        """Read a request; raise a RefusedError if it is invalid."""

    @abstractmethod
    def stack(self, model: Model, questions: list[Question]) -> Inputs:
        """Combine the questions of a batch."""

    @abstractmethod
    def forecast(self, model: Model, inputs: Inputs) -> Outputs:
        """Run the model on a batch."""

    @abstractmethod
    def answers(self, model: Model, questions: list[Question], outputs: Outputs) -> Sequence[bytes]:
        """Write the body of each question's answer."""

    @abstractmethod
    def target(self, question: Question) -> str:
        """Return the metric tag of a prediction's target."""

    @abstractmethod
    def drift(self, model: Model, inputs: list[Inputs]) -> Mapping[str, float]:
        """Return the share of values outside the training range, by column."""

    @abstractmethod
    def health(self) -> BaseModel:
        """Return whether a model is loaded and ready."""

    @abstractmethod
    def model_info(self) -> BaseModel:
        """Return the description of the model in service."""


class ForecastCounts(Generic[Inputs]):
    """Totals since the start, and a sample of the batches.

    Args:
        drift: returns the share of input values outside the training range, by column.
    """

    def __init__(self, drift: Callable[[list[Inputs]], Mapping[str, float]]) -> None:
        self._drift = drift
        self.predictions: Counter[str] = Counter()
        self._batches: Sampled[tuple[int, float, Inputs]] = Sampled()

    def batch(self, size: int, seconds: float, inputs: Inputs) -> None:
        """Note a batch that has run."""
        self._batches.observe((size, seconds, inputs))

    def take_batches(self) -> tuple[list[tuple[int, float]], Mapping[str, float]]:
        """Return the sample since the last call, (size, seconds) each, and its drift."""
        sample = self._batches.take()
        inputs = [inputs for _, _, inputs in sample]
        batches = [(size, seconds) for size, seconds, _ in sample]
        return batches, self._drift(inputs) if inputs else {}
