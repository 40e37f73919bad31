"""The model that is being served, and how another takes its place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from models.artifacts import InvalidArtifactError

logger = logging.getLogger("ray.serve")

Model = TypeVar("Model")


class ModelSlot(Generic[Model]):
    """Holds the model in service; an artifact that cannot be served leaves it in place.

    Args:
        read: reads an artifact; raises InvalidArtifactError.

    Attributes:
        model: None until a first artifact was good.
    """

    def __init__(self, read: Callable[[Path], Model]) -> None:
        self._read = read
        self.model: Model | None = None

    async def load(self, path: str) -> None:
        """Read an artifact off the event loop and put it in service."""
        try:
            self.model = await asyncio.to_thread(self._read, Path(path))
        except InvalidArtifactError as error:
            serving = "the model before it stays in service" if self.model else "no model"
            logger.error("The model was not loaded (%s): %s", serving, error)
            return
        logger.info("Serving the model of %s.", path)
