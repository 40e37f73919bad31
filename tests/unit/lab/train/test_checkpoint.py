"""Damaged, hostile and foreign checkpoints are refused with a sentence that says why."""

import os
import pickle
from pathlib import Path

import pytest
import torch

from lab.train.checkpoint import InvalidCheckpointError, Resumable, write_atomically


class Learner(Resumable):
    VALUES, PARTS = ("iteration",), ("actor",)

    def __init__(self) -> None:
        self.settings = {"gamma": 0.97, "counts": "all"}
        self.iteration, self.actor = 0, torch.nn.Linear(3, 2)


def write(path: Path, **changes: object) -> Path:
    write_atomically(Learner().state_dict() | changes, path)
    return path


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("pwned",))


def test_pickle_with_code_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("c.pt").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(InvalidCheckpointError, match="not a checkpoint"):
        Learner().resume(Path("c.pt"))
    assert os.listdir() == ["c.pt"]


def test_truncated_file_is_refused(tmp_path):
    path = write(tmp_path / "c.pt")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidCheckpointError, match="not a checkpoint"):
        Learner().resume(path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"more": 1}, "another version of Greenwave made it; name another folder"),
        ({"settings": {"gamma": 0.97}}, "another version"),
        ({"settings": None}, "another version"),
        ({"settings": {"gamma": 0.5, "counts": "all"}}, r"made with gamma 0\.5, not 0\.97"),
        ({"actor": {"weight": torch.zeros(2)}}, "actor does not fit"),
    ],
)
def test_another_form_or_run_is_refused(tmp_path, changes, problem):
    with pytest.raises(InvalidCheckpointError, match=problem):
        Learner().resume(write(tmp_path / "c.pt", **changes))
