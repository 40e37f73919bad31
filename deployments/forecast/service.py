"""A forecast service without HTTP and Ray: what is the same for every model."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel
from starlette.types import Scope

from deployments.batcher import Batcher, settle
from deployments.feed.messages import Contents, Demand, FlowForecast
from deployments.feed.publisher import WatchedEvents
from deployments.http.errors import RefusedError
from deployments.http.messages import JSON_HEADERS, Answer
from deployments.log import logger
from deployments.metrics.sampled import Sampled
from deployments.model_slot import ModelSlot
from models.artifacts import InvalidArtifactError

Model = TypeVar("Model")
Question = TypeVar("Question")
Inputs = TypeVar("Inputs")
Outputs = TypeVar("Outputs")

MAX_FORECASTS = 20


class ForecastService(ABC, Generic[Model, Question, Inputs, Outputs]):
    """Reads requests, forecasts in batches, describes its model, and reports to the console.

    A subclass declares its application, reads a request, runs the model on a batch, and writes the
    answers.

    Attributes:
        name: the first part of its metrics' names; as a title, the name of its deployment.
        description: of the application.
        path: of the route that predicts; ``info_path`` is that of the one that describes the model.
        info_description: of that route.
        max_body: bytes of a request that predicts.
        operation: what the document says of ``path``: further arguments of ``FastRoutes.add``.
        counted_by: metric tag of a prediction's target.
        drift_of: metric tag of an input's column.
        predictions: since the start, by target.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    path: ClassVar[str]
    info_path: ClassVar[str]
    info_description: ClassVar[str]
    max_body: ClassVar[int]
    operation: ClassVar[Mapping[str, Any]]
    counted_by: ClassVar[str]
    drift_of: ClassVar[str]

    def __init__(self) -> None:
        self.slot: ModelSlot[Model] = ModelSlot("model", self.read, InvalidArtifactError)
        self.predictions: Counter[str] = Counter()
        self.watched: WatchedEvents[FlowForecast] = WatchedEvents(MAX_FORECASTS)
        self._batches: Sampled[tuple[int, float, Inputs]] = Sampled()
        self._batcher: Batcher[Question, bytes] = Batcher(self._run)

    async def predict(self, scope: Scope, body: bytes) -> Answer:
        """Answer a request for a forecast; a defect is answered as the contract says.

        Raises:
            RefusedError: with the status and the detail of the answer.
        """
        try:
            question = self.parse(body)
            self._served()
            return 200, await self._batcher.submit(question), JSON_HEADERS
        except RefusedError:
            raise
        except Exception as error:
            logger.exception("A forecast failed")
            raise RefusedError(f"Prediction error: {error}", 500) from error

    def _served(self) -> Model:
        if self.slot.model is None:
            raise RefusedError("Model not loaded", 503, "model_not_loaded")
        return self.slot.model

    def _run(self, batch: list[tuple[Question, asyncio.Future[bytes]]]) -> None:
        outcomes: Sequence[bytes | Exception]
        try:
            outcomes = self._answer([question for question, _ in batch])
        except Exception as error:
            outcomes = [error] * len(batch)
        settle(batch, outcomes)

    def _answer(self, questions: list[Question]) -> Sequence[bytes]:
        model = self._served()
        started = time.perf_counter()
        inputs, outputs = self.forecast(model, questions)
        self._batches.observe((len(questions), time.perf_counter() - started, inputs))
        self.predictions.update(map(self.target, questions))
        return self.answers(model, questions, outputs)

    def take_batches(self) -> tuple[list[tuple[int, float]], Mapping[str, float]]:
        """Return a sample since the last call, (size, seconds) each, and its drift."""
        sample, model = self._batches.take(), self.slot.model
        batches = [(size, seconds) for size, seconds, _ in sample]
        if model is None or not sample:
            return batches, {}
        return batches, self.drift(model, [inputs for _, _, inputs in sample])

    def on_demand_changed(self, demand: Demand) -> None:
        self.watched.on_demand_changed(demand)

    def take(self) -> Contents:
        return Contents(self.predictions.total(), forecasts=self.watched.take())

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
    def forecast(self, model: Model, questions: list[Question]) -> tuple[Inputs, Outputs]:
        """Run the model on a batch; return its inputs, too."""

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
    async def health(self) -> BaseModel:
        """Return whether a model is loaded, and why a swap has failed."""

    @abstractmethod
    async def model_info(self) -> BaseModel:
        """Return the description of the model in service."""
