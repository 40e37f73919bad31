"""A trained network on disk: ``NAME.safetensors`` and beside it its card, ``NAME.json``.

The safetensors file is all that a forecast needs: the weights, and in its metadata the
configuration with the scales of the inputs. The card says where the network comes from and how
good it is, and is bound to its file by a checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from models.atomic_write import atomic_write

Tensors = dict[str, NDArray[np.float32]]
Config = TypeVar("Config", bound=BaseModel)

_CONFIG_KEY = "config"


class InvalidArtifactError(ValueError):
    """The files cannot be served; the message says why."""


class ColumnScale(BaseModel):
    """How one input column is scaled, and the range it had in training."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: float
    std: float = Field(gt=0)
    low: float
    high: float


class Card(BaseModel):
    """The description of a network.

    Attributes:
        version: of this artifact, as ``model_version`` in answers.
        created: date, ISO 8601.
        git_revision: of the code that trained it.
        weights_sha256: of the safetensors file.
        data: what it was trained on.
        test_loss, test_mae: on the test days; the loss in scaled units, the error in those of
            the answer.
        metrics: everything else that was measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    created: str
    git_revision: str
    weights_sha256: str = ""
    data: dict[str, Any]
    test_loss: float
    test_mae: float
    metrics: dict[str, Any]


def write_artifact(path: Path, tensors: Tensors, config: BaseModel, card: Card) -> None:
    """Write both files, each all or nothing."""
    weights = save(tensors, {_CONFIG_KEY: config.model_dump_json()})
    bound = card.model_copy(update={"weights_sha256": hashlib.sha256(weights).hexdigest()})
    with atomic_write(path) as file:
        file.write(weights)
    with atomic_write(card_path(path)) as file:
        file.write((bound.model_dump_json(indent=2) + "\n").encode())


def read_artifact(
    path: Path,
    config_type: type[Config],
    shapes_of: Callable[[Config], Mapping[str, tuple[int, ...]]],
) -> tuple[Tensors, Config, Card]:
    """Read both files and check them against each other.

    Args:
        shapes_of: the shape of every tensor that a network of this configuration has.

    Raises:
        InvalidArtifactError: a file is missing or not of its form, the card is another file's, or
            the tensors are not exactly those of the network, finite float32.
    """
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        card = Card.model_validate_json(card_path(path).read_bytes())
        with safe_open(path, framework="numpy") as file:
            names = file.keys()  # the file itself cannot be iterated
            tensors: Tensors = {name: file.get_tensor(name) for name in names}
            config = config_type.model_validate_json((file.metadata() or {})[_CONFIG_KEY])
    except KeyError as error:
        raise InvalidArtifactError(f"{path} carries no configuration") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its configuration"
        raise InvalidArtifactError(
            f"{path} is not of this model: {where}: {first['msg']}"
        ) from error
    except (OSError, SafetensorError, TypeError, ValueError) as error:  # of NumPy, JSON, the forms
        raise InvalidArtifactError(f"{path} cannot be read: {error}") from error
    if card.weights_sha256 != digest:
        raise InvalidArtifactError(f"{card_path(path)} is the card of another file than {path}")
    _check_tensors(path, tensors, shapes_of(config))
    return tensors, config, card


def card_path(path: Path) -> Path:
    return path.with_suffix(".json")


def _check_tensors(path: Path, tensors: Tensors, shapes: Mapping[str, tuple[int, ...]]) -> None:
    if tensors.keys() != shapes.keys():
        different = sorted(tensors.keys() ^ shapes.keys())
        raise InvalidArtifactError(f"{path} is not of this network: {different} differ")
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tensor.shape != shape or tensor.dtype != np.float32:
            found = f"{tensor.dtype} {tensor.shape}"
            raise InvalidArtifactError(f"{path}: {name} is {found}, expected float32 {shape}")
        if not np.isfinite(tensor).all():
            raise InvalidArtifactError(f"{path}: {name} holds values that are not finite")
