"""Damaged, hostile and foreign checkpoints are refused with a sentence that says why."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch

from lab.train.checkpoint import InvalidCheckpointError, read_checkpoint, write_atomically

EXAMPLE = {"iteration": 0, "actor": {"weight": torch.zeros(2, 3)}, "optimizer": {"state": {}}}


def write(path: Path, **changes: object) -> Path:
    write_atomically(EXAMPLE | changes, path)
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    moments = {"state": {0: {"average": torch.ones(2)}}}
    path = write(tmp_path / "c.pt", iteration=7, optimizer=moments)
    loaded = read_checkpoint(path, EXAMPLE)
    assert loaded["iteration"] == 7
    assert loaded["optimizer"]["state"][0]["average"].tolist() == [1, 1]
    assert os.listdir(tmp_path) == ["c.pt"]


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("pwned",))


def test_pickle_with_code_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.pt").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(InvalidCheckpointError, match="not a checkpoint"):
        read_checkpoint(Path("c.pt"), EXAMPLE)
    assert os.listdir() == ["c.pt"]


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.pt")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidCheckpointError, match="not a checkpoint"):
        read_checkpoint(path, EXAMPLE)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"actor": {"weight": torch.zeros(3, 2)}}, r"actor.weight has form \(3, 2\)"),
        ({"actor": {"weight": torch.full((2, 3), torch.nan)}}, "actor.weight has values that"),
        ({"actor": {"bias": torch.zeros(2)}}, "actor differs in its keys: bias, weight"),
        ({"iteration": "7"}, "iteration is of type str, expected int"),
        ({"optimizer": {"state": {0: [torch.tensor(torch.inf)]}}}, "optimizer.state has values"),
        ({"more": 1}, "the file differs in its keys: more"),
    ],
)
def test_other_form_is_refused(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidCheckpointError, match=problem):
        read_checkpoint(write(tmp_path / "c.pt", **changes), EXAMPLE)
