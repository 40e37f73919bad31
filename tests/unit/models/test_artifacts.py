import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

from models.artifacts import InvalidArtifactError, card_path, write_artifact
from models.density.forecast import DensityForecaster
from tests.unit.forecasters import CARD, density_config, density_network, write_density, write_flow


def test_what_was_written_is_read(tmp_path: Path) -> None:
    forecaster = DensityForecaster.load(write_density(tmp_path))
    assert forecaster.edges == density_config().edges
    assert forecaster.card.test_mae == CARD.test_mae


@pytest.mark.parametrize("content", [None, b"", b"\x00" * 100, b"PK\x03\x04", b"{}" * 50])
def test_weights_that_are_missing_or_of_another_form_are_refused(tmp_path, content):
    path = write_density(tmp_path)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidArtifactError, match="cannot be read"):
        DensityForecaster.load(path)


def test_a_missing_card_is_refused(tmp_path):
    path = write_density(tmp_path)
    card_path(path).unlink()
    with pytest.raises(InvalidArtifactError, match="cannot be read"):
        DensityForecaster.load(path)


def test_card_of_another_file_is_refused(tmp_path: Path) -> None:
    first, second = write_density(tmp_path, 1), write_density(tmp_path, 2)
    card_path(second).write_bytes(card_path(first).read_bytes())
    with pytest.raises(InvalidArtifactError, match="card of another file"):
        DensityForecaster.load(second)


@pytest.mark.parametrize(
    ("change", "hidden_dim", "reason"),
    [
        ({"head.bias": None}, 8, r"head\.bias"),
        ({}, 16, "expected float32"),
        ({"head.bias": np.array([0, 0, np.nan, 0, 0], np.float32)}, 8, "not finite"),
    ],
    ids=["missing", "of another shape", "not finite"],
)
def test_a_tensor_that_is_not_of_the_network_is_refused(tmp_path, change, hidden_dim, reason):
    tensors = {name: each.numpy() for name, each in density_network(0).state_dict().items()}
    changed = {name: each for name, each in (tensors | change).items() if each is not None}
    path = tmp_path / "x.safetensors"
    write_artifact(path, changed, density_config(hidden_dim=hidden_dim), CARD)
    with pytest.raises(InvalidArtifactError, match=reason):
        DensityForecaster.load(path)


def test_tensors_of_a_type_that_numpy_may_lack_are_refused(tmp_path: Path) -> None:
    path = write_density(tmp_path)
    tensors = {name: tensor.bfloat16() for name, tensor in density_network(0).state_dict().items()}
    save_file(tensors, path, {"config": density_config().model_dump_json()})
    weights_sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    card = CARD.model_copy(update={"weights_sha256": weights_sha256})
    card_path(path).write_text(card.model_dump_json())
    # NumPy has the type once something has imported ml_dtypes, as Triton's client does
    with pytest.raises(InvalidArtifactError, match=r"cannot be read|expected float32"):
        DensityForecaster.load(path)


def test_a_scale_without_spread_is_refused(tmp_path: Path) -> None:
    path = write_density(tmp_path)
    config = json.loads(density_config().model_dump_json())
    config["scales"][config["edges"][0]]["std"] = 0.0
    save_file(density_network(0).state_dict(), path, {"config": json.dumps(config)})
    with pytest.raises(InvalidArtifactError, match="greater than 0"):
        DensityForecaster.load(path)


def test_the_file_of_another_model_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidArtifactError, match="is not of this model: ") as refusal:
        DensityForecaster.load(write_flow(tmp_path))
    assert "\n" not in str(refusal.value)
