import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from models import torch_file
from models.torch_file import InvalidTorchFileError, StoredTensor, TorchFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.th"


def rewrite(path: Path, part: str, content: bytes) -> None:
    """Put other bytes in the place of one part of the archive."""
    with zipfile.ZipFile(path) as before:
        parts = {name: before.read(name) for name in before.namelist()}
    (name,) = (each for each in parts if each.endswith("/" + part))
    with zipfile.ZipFile(path, "w") as after:
        for each, old in parts.items():
            after.writestr(each, content if each == name else old)


def test_nested_content_is_read_with_its_tensors(path: Path) -> None:
    torch.save({"steps": [1, 2.5, "three", None], "weights": torch.arange(6.0).view(2, 3)}, path)
    file = TorchFile(path)
    assert file.content["steps"] == [1, 2.5, "three", None]
    np.testing.assert_array_equal(
        file.floats(file.content["weights"]), np.arange(6, dtype=np.float32).reshape(2, 3)
    )


def test_big_endian_values_are_read(path: Path) -> None:
    torch.save(torch.tensor([1.0, 2.0]), path)
    rewrite(path, "byteorder", b"big")
    rewrite(path, "data/0", np.array([1.0, 2.0], ">f4").tobytes())
    file = TorchFile(path)
    assert file.floats(file.content).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 1},
        {"offset": -1},
        {"offset": 2**62},
        {"shape": (5,)},
        {"shape": (2**40, 2**40), "strides": (0, 1)},
        {"strides": (2,)},
        {"strides": (-1,)},
        {"strides": ()},
        {"strides": ("one",)},
        {"key": "1"},
        {"key": "../data.pkl"},
    ],
)
def test_no_byte_outside_a_tensors_storage_is_read(path: Path, change: dict[str, object]) -> None:
    torch.save(torch.zeros(4), path)
    file = TorchFile(path)
    tensor: StoredTensor = file.content._replace(**change)
    with pytest.raises(InvalidTorchFileError, match="outside its storage"):
        file.floats(tensor)


def test_a_changed_bit_is_noticed(path: Path) -> None:
    torch.save(torch.full((100,), 1.0), path)
    content = bytearray(path.read_bytes())
    content[content.index(np.full(100, 1.0, np.float32).tobytes()) + 40] ^= 1
    path.write_bytes(content)
    file = TorchFile(path)
    with pytest.raises(InvalidTorchFileError, match="CRC"):
        file.floats(file.content)


def test_a_file_that_is_too_large_is_not_read_to_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(torch.zeros(1000), path)
    monkeypatch.setattr(torch_file, "MAX_BYTES", 1000)
    with pytest.raises(InvalidTorchFileError, match="larger than"):
        TorchFile(path)


def test_a_part_that_unpacks_to_too_much_is_not_unpacked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("some/data.pkl", bytes(10**6))
    monkeypatch.setattr(torch_file, "MAX_BYTES", 10**5)
    with pytest.raises(InvalidTorchFileError, match=r"data\.pkl in it is larger than"):
        TorchFile(path)


@pytest.mark.parametrize("reference", [("module", "x", "0"), ("storage", 1, "0"), 7, ()])
def test_a_reference_to_anything_but_a_storage_is_refused(path: Path, reference: object) -> None:
    torch.save(torch.zeros(1), path)
    stop, persistent_id = b".", b"Q"
    rewrite(path, "data.pkl", pickle.dumps(reference, 2).removesuffix(stop) + persistent_id + stop)
    with pytest.raises(InvalidTorchFileError):
        TorchFile(path)


def test_an_archive_of_something_else_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InvalidTorchFileError, match=r"not one that torch\.save wrote"):
        TorchFile(path)
