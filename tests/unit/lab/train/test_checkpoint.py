"""Damaged, hostile and foreign checkpoints are refused with a sentence that says why."""

import os
import pickle
from pathlib import Path

import pytest
import torch

from lab.train.checkpoint import InvalidCheckpointError, read_checkpoint, write_atomically

PARTS, SETTINGS = ("iteration", "actor"), {"gamma": 0.97, "counts": "all"}
EXAMPLE = {"iteration": 0, "actor": {"weight": torch.zeros(2, 3)}, "settings": SETTINGS}


def write(path: Path, **changes: object) -> Path:
    write_atomically(EXAMPLE | changes, path)
    return path


def test_what_was_written_is_read(tmp_path):
    loaded = read_checkpoint(write(tmp_path / "c.pt", iteration=7), PARTS, SETTINGS)
    assert loaded["iteration"] == 7
    assert loaded["actor"]["weight"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert os.listdir(tmp_path) == ["c.pt"]


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("pwned",))


def test_pickle_with_code_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("c.pt").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(InvalidCheckpointError, match="not a checkpoint"):
        read_checkpoint(Path("c.pt"), PARTS, SETTINGS)
    assert os.listdir() == ["c.pt"]


def test_truncated_file_is_refused(tmp_path):
    path = write(tmp_path / "c.pt")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidCheckpointError, match="not a checkpoint"):
        read_checkpoint(path, PARTS, SETTINGS)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"more": 1}, "another version of Greenwave made it; name another folder"),
        ({"settings": {"gamma": 0.97}}, "another version"),
        ({"settings": None}, "another version"),
        ({"settings": SETTINGS | {"gamma": 0.5}}, r"made with gamma 0\.5, not 0\.97"),
    ],
)
def test_another_form_or_run_is_refused(tmp_path, changes, problem):
    with pytest.raises(InvalidCheckpointError, match=problem):
        read_checkpoint(write(tmp_path / "c.pt", **changes), PARTS, SETTINGS)
