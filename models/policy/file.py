"""The policy's file as it is served: read and checked in NumPy, without PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from models.policy.form import STATE_DICT_SHAPES, InvalidPolicyFileError
from models.torch_file import InvalidTorchFileError, StoredTensor, TorchFile

Weights = dict[str, NDArray[np.float32]]


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """Read and check a file in the form of :mod:`models.policy.form`.

    Raises:
        InvalidPolicyFileError: missing, unreadable, or with other keys, shapes, types or non-finite
            values.
    """
    name = os.fspath(path)
    try:
        file = TorchFile(path)
    except FileNotFoundError:
        raise InvalidPolicyFileError(f"{name}: no such file") from None
    except InvalidTorchFileError as error:
        raise InvalidPolicyFileError(f"{name}: not a PyTorch state dict: {error}") from error
    problem = _find_problem(file.content)
    if problem:
        raise InvalidPolicyFileError(f"{name}: {problem}")
    return {each: _read(name, file, each) for each in STATE_DICT_SHAPES}


def _read(path: str, file: TorchFile, name: str) -> NDArray[np.float32]:
    try:
        weights = file.floats(file.content[name])
    except InvalidTorchFileError as error:
        raise InvalidPolicyFileError(f"{path}: {name}: {error}") from error
    if not np.isfinite(weights).all():
        raise InvalidPolicyFileError(f"{path}: {name} has values that are not finite")
    return weights


def _find_problem(content: object) -> str | None:
    if not isinstance(content, Mapping):
        return f"expected a state dict, found {type(content).__name__}"
    missing = sorted(STATE_DICT_SHAPES.keys() - content.keys())
    unknown = sorted(map(str, content.keys() - STATE_DICT_SHAPES.keys()))
    if missing or unknown:
        return f"keys differ: missing {missing}, unknown {unknown}"
    for name, shape in STATE_DICT_SHAPES.items():
        tensor = content[name]
        if not isinstance(tensor, StoredTensor) or tensor.storage_type != "FloatStorage":
            return f"{name} is not a float32 tensor"
        if tensor.shape != shape:
            return f"{name} has shape {tensor.shape}, expected {shape}"
    return None
