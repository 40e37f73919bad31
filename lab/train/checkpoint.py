"""Checkpoints of a training run: written all or nothing, read as tensors and plain values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.atomic_write import atomic_write


class InvalidCheckpointError(ValueError):
    """The file is not a checkpoint that this run can continue from; the message says why."""


def write_atomically(content: object, path: Path) -> None:
    """Write a file that is either complete or not there, whenever the process is killed."""
    with atomic_write(path) as file:
        torch.save(content, file)


def read_checkpoint(path: Path, example: Mapping[str, Any]) -> dict[str, Any]:
    """Read a checkpoint that has the keys, types and shapes of an example.

    Where the example has an empty dict, as an optimiser's state before its first step, any content
    passes.

    Raises:
        InvalidCheckpointError: unreadable, hostile, of another form, or with non-finite numbers.
    """
    try:
        # weights_only: a malicious pickle cannot run code
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types for a damaged or hostile file
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InvalidCheckpointError(f"{path}: not a checkpoint: {reason}") from error
    for problem in _find_problems(loaded, example, ""):
        raise InvalidCheckpointError(f"{path}: {problem}")
    content: dict[str, Any] = loaded
    return content


def _find_problems(loaded: object, example: object, name: str) -> Iterator[str]:
    where = name or "the file"
    if isinstance(loaded, Tensor) and not torch.isfinite(loaded).all():
        yield f"{where} has values that are not finite"
    if type(loaded) is not type(example):
        yield f"{where} is of type {type(loaded).__name__}, expected {type(example).__name__}"
    elif isinstance(loaded, Tensor) and isinstance(example, Tensor):
        if loaded.shape != example.shape or loaded.dtype != example.dtype:
            found, expected = (f"{tuple(t.shape)} {t.dtype}" for t in (loaded, example))
            yield f"{where} has form {found}, expected {expected}"
    elif isinstance(loaded, Mapping) and isinstance(example, Mapping):
        if not example:
            yield from _find_non_finite(loaded, where)
        elif loaded.keys() != example.keys():
            different = sorted(map(str, loaded.keys() ^ example.keys()))
            yield f"{where} differs in its keys: {', '.join(different)}"
        else:
            for key, part in example.items():
                yield from _find_problems(loaded[key], part, f"{name}.{key}".lstrip("."))


def _find_non_finite(loaded: object, where: str) -> Iterator[str]:
    if isinstance(loaded, Tensor):
        if not torch.isfinite(loaded).all():
            yield f"{where} has values that are not finite"
    elif isinstance(loaded, Mapping):
        for part in loaded.values():
            yield from _find_non_finite(part, where)
    elif isinstance(loaded, Sequence) and not isinstance(loaded, str):
        for part in loaded:
            yield from _find_non_finite(part, where)
