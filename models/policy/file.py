"""The policy's file as it is served: read and checked in NumPy, without PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from models.networks.network import Network
from models.policy.form import HIDDEN_DIM, InvalidPolicyFileError, PolicyForm
from models.torch_file import InvalidTorchFileError, StoredTensor, TorchFile

Weights = dict[str, NDArray[np.float32]]
_Shape = tuple[int, ...]

_INPUT = "fc1.weight"


def read_weights(path: str | os.PathLike[str], network: Network) -> Weights:
    """Read and check a file in the form of :mod:`models.policy.form`.

    With the agent's one-hot in its input or without: the file decides.

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
    problem = _find_problem(file.content, network)
    if problem:
        raise InvalidPolicyFileError(f"{name}: {problem}")
    return {each: _read(name, file, each) for each in PolicyForm.of(network).shapes}


def sees_agents(input_shape: _Shape, network: Network) -> bool:
    """Tell by the shape of ``fc1.weight`` whether the agent's one-hot is part of the input."""
    return input_shape != PolicyForm.of(network, agent_id=False).shapes[_INPUT]


def _read(path: str, file: TorchFile, name: str) -> NDArray[np.float32]:
    try:
        weights = file.floats(file.content[name])
    except InvalidTorchFileError as error:
        raise InvalidPolicyFileError(f"{path}: {name}: {error}") from error
    if not np.isfinite(weights).all():
        raise InvalidPolicyFileError(f"{path}: {name} has values that are not finite")
    return weights


def _find_problem(content: object, network: Network) -> str | None:
    if not isinstance(content, Mapping):
        return f"expected a state dict, found {type(content).__name__}"
    with_agent = PolicyForm.of(network).shapes
    missing = sorted(with_agent.keys() - content.keys())
    unknown = sorted(map(str, content.keys() - with_agent.keys()))
    if missing or unknown:
        return f"keys differ: missing {missing}, unknown {unknown}"
    for name in with_agent:
        tensor = content[name]
        if not isinstance(tensor, StoredTensor) or tensor.storage_type != "FloatStorage":
            return f"{name} is not a float32 tensor"
    shapes = {name: content[name].shape for name in with_agent}
    expected = PolicyForm.of(network, sees_agents(shapes[_INPUT], network)).shapes
    for name, shape in expected.items():
        if shapes[name] != shape:
            hint = _hint(name, shapes, network)
            return f"{name} has shape {shapes[name]}, expected {shape}{hint}"
    return None


def _hint(name: str, shapes: Mapping[str, _Shape], network: Network) -> str:
    """Say what may be behind a shape that is not that of the network."""
    hidden, inputs = (*shapes[_INPUT], 0, 0)[:2]
    if hidden != HIDDEN_DIM and shapes["fc1.bias"] == (hidden,):
        return f"; served are policies with a hidden_dim of {HIDDEN_DIM}"
    form, alone = PolicyForm.of(network), PolicyForm.of(network, agent_id=False)
    sees_last_action = inputs - form.n_actions in (form.input_dim, alone.input_dim)
    if name == _INPUT and sees_last_action:
        return "; policies that see their last action (obs_last_action) are not served"
    other = f", or {alone.shapes[name]} without the agent's one-hot" if name == _INPUT else ""
    return f"{other}; the file may belong to another network than {network.name!r}"
