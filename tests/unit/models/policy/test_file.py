import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.networks.shipped import SHIPPED
from models.policy.file import read_weights
from models.policy.form import InvalidPolicyFileError
from tests.reference import random_state_dict


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.th"


def test_parameters_are_read_as_plain_arrays(path):
    weights = random_state_dict()
    torch.save({name: nn.Parameter(w) for name, w in weights.items()}, path)
    np.testing.assert_array_equal(read_weights(path, SHIPPED)["fc1.weight"], weights["fc1.weight"])


def test_a_tensor_that_lies_across_its_storage_is_read_as_it_is(path):
    weights = random_state_dict()
    weights["fc1.weight"] = torch.arange(3 + 24 * 128.0)[3:].reshape(24, 128).T
    torch.save(weights, path)
    np.testing.assert_array_equal(read_weights(path, SHIPPED)["fc1.weight"], weights["fc1.weight"])


def without(name: str) -> dict[str, Tensor]:
    weights = random_state_dict()
    del weights[name]
    return weights


def changed(name: str, tensor: object) -> dict[str, object]:
    return random_state_dict() | {name: tensor}


NAN_BIAS = torch.full((4,), float("nan"))
INF_BIAS = torch.full((4,), float("inf"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (without("fc2.bias"), "missing ['fc2.bias']"),
        (changed("fc3.bias", torch.zeros(4)), "unknown ['fc3.bias']"),
        (changed("fc2.bias", torch.zeros(5)), "fc2.bias has shape (5,), expected (4,)"),
        (changed("fc1.weight", torch.zeros(24, 128)), "fc1.weight has shape (24, 128)"),
        (changed("fc2.bias", torch.zeros(4).double()), "fc2.bias is not a float32 tensor"),
        (changed("fc2.bias", [0.0] * 4), "fc2.bias is not a float32 tensor"),
        (changed("fc2.bias", NAN_BIAS), "fc2.bias has values that are not finite"),
        (changed("fc2.bias", INF_BIAS), "fc2.bias has values that are not finite"),
        (
            changed("fc2.bias", torch.zeros(4).to_sparse()),
            "which is not part of a state dict of dense tensors",
        ),
        ([1, 2, 3], "expected a state dict, found list"),
        ({}, "missing"),
    ],
)
def test_another_content_is_refused_with_its_reason(path, content, reason):
    torch.save(content, path)
    with pytest.raises(InvalidPolicyFileError) as refusal:
        read_weights(path, SHIPPED)
    assert reason in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_missing_file_and_a_folder_are_refused(path, tmp_path):
    for named, reason in ((path, "no such file"), (tmp_path, "not a PyTorch state dict")):
        with pytest.raises(InvalidPolicyFileError, match=reason):
            read_weights(named, SHIPPED)


@pytest.mark.parametrize("kept", [0, 1, 100, 5000])
def test_a_truncated_file_is_refused(path, kept):
    torch.save(random_state_dict(), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidPolicyFileError, match="not a PyTorch state dict"):
        read_weights(path, SHIPPED)


class Hostile:
    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.witness),)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize(
    "save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))]
)
def test_a_hostile_pickle_runs_no_code(path, tmp_path, save):
    witness = tmp_path / "witness"
    save({"fc1.weight": Hostile(witness)}, path)
    with pytest.raises(InvalidPolicyFileError):
        read_weights(path, SHIPPED)
    assert not witness.exists()
