"""Checkpoints of a training run: written all or nothing, read as tensors and plain values only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from models.atomic_write import atomic_write


class InvalidCheckpointError(ValueError):
    """The file is not a checkpoint that this run can continue from; the message says why."""


def write_atomically(content: object, path: Path) -> None:
    """Write a file that is either complete or not there, whenever the process is killed."""
    with atomic_write(path) as file:
        torch.save(content, file)


class Resumable:
    """A learner that continues from its checkpoint.

    Attributes:
        settings: what a run must be continued with.
        VALUES, PARTS: names of all that changes while it learns: plain values and tensors; and what
            has a state dict.
    """

    VALUES: ClassVar[tuple[str, ...]]
    PARTS: ClassVar[tuple[str, ...]]
    settings: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        write_atomically(self.state_dict(), path)

    def state_dict(self) -> dict[str, Any]:
        return {
            "settings": dict(self.settings),
            **{name: getattr(self, name) for name in self.VALUES},
            **{name: getattr(self, name).state_dict() for name in self.PARTS},
        }

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint.

        Raises:
            InvalidCheckpointError: it is damaged, of another version, or of other settings.
        """
        loaded = self._read(path)
        for name in self.VALUES:
            setattr(self, name, loaded[name])
        for name in self.PARTS:
            try:
                getattr(self, name).load_state_dict(loaded[name])
            except (ValueError, KeyError, RuntimeError) as error:
                raise InvalidCheckpointError(f"{path}: {name} does not fit: {error}") from error

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            # weights_only: a malicious pickle cannot run code
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many types for a damaged or hostile file
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise InvalidCheckpointError(f"{path}: not a checkpoint: {reason}") from error
        members, known = {"settings", *self.VALUES, *self.PARTS}, None
        if isinstance(loaded, dict) and {*loaded} == members:
            known = loaded["settings"]
        if not isinstance(known, dict) or {*known} != {*self.settings}:
            raise InvalidCheckpointError(
                f"{path}: another version of Greenwave made it; name another folder to begin anew,"
                " with --start and the best.th of this one to keep what was learnt"
            )
        for name, value in self.settings.items():
            if known[name] != value:
                raise InvalidCheckpointError(
                    f"{path}: made with {name} {known[name]!r}, not {value!r}; name another folder"
                    " for another run"
                )
        content: dict[str, Any] = loaded
        return content
