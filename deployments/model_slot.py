"""The model in service, and its replacement while replicas run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import Field

from deployments.options import Options

logger = logging.getLogger("ray.serve")

Model = TypeVar("Model")


class ModelSlot(Generic[Model]):
    """Holds the model in service; a file that cannot be served leaves it in place.

    Args:
        kind: name of the model in the log and in ``problem``.
        read: reads a file.
        refusal: raised by ``read`` when the file cannot be served.

    Attributes:
        model: None until a file could be served.
        problem: why the newest file is not served; None if it is.
    """

    def __init__(self, kind: str, read: Callable[[Path], Model], refusal: type[Exception]) -> None:
        self._kind = kind
        self._read = read
        self._refusal = refusal
        self.model: Model | None = None
        self.problem: str | None = f"no {kind} file has been read yet"

    async def load(self, path: str | Path) -> None:
        """Read a file in a thread, and put its model in service."""
        try:
            model = await asyncio.to_thread(self._read, Path(path))
        except self._refusal as error:
            self.problem = str(error)
            serving = f"the {self._kind} before it stays in service" if self.model else "no model"
            logger.error("The %s was not loaded (%s): %s", self._kind, serving, error)
            return
        self.model, self.problem = model, None
        logger.info("Serving the %s of %s.", self._kind, path)


class UserConfig(Options):
    """``user_config`` of a deployment: another value swaps the model without a restart.

    A service's own class names the key of ``path``.
    """

    path: str | None = None
    revision: int | str | None = Field(
        None,
        description="Any number or text; a new one makes the service read the file again.",
    )


class ConfiguredModel:
    """Loads a slot from a default path, or from that of ``user_config``."""

    def __init__(self, slot: ModelSlot[Any], path: str, config: type[UserConfig]) -> None:
        self._slot = slot
        self._path = path
        self._config = config
        self._loaded = config()

    async def start(self) -> None:
        await self._slot.load(self._path)

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Swap the model, unless the configuration is loaded already.

        Raises:
            ValidationError: an unknown key, or a value of a wrong type.
        """
        wanted = self._config.model_validate(user_config)
        if wanted != self._loaded:
            await self._slot.load(wanted.path or self._path)
            self._loaded = wanted
