"""A whole training run, small: the same seed gives the same curve, also after a kill."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.policy.network import read_state_dict

pytestmark = pytest.mark.timeout(600)  # each test trains for ten seconds of two free cores

SMALL = (
    *("--iterations", "3", "--episodes", "2", "--repeats", "2", "--duration-s", "120"),
    *("--validate-every", "2", "--critic-iterations", "1", "--epochs", "2"),
)


def command(folder: Path, *options: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "models.training.mappo",
        "--folder",
        str(folder),
        *SMALL,
        *options,
    ]


def run(folder: Path, *options: str) -> str:
    """Train to the end; returns what a failed run says."""
    done = subprocess.run(command(folder, *options), stderr=subprocess.PIPE, text=True)
    return done.stderr if done.returncode else ""


def read_curve(folder: Path) -> list[dict[str, str]]:
    with (folder / "log.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "wall_s"} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert run(folder, "--workers", "2") == ""
    return folder


def test_run_leaves_a_curve_a_checkpoint_and_weights(finished: Path) -> None:
    curve = read_curve(finished)
    assert [row["iteration"] for row in curve] == ["0", "1", "2", "3"]
    assert [bool(row["validation"]) for row in curve] == [True, False, True, True]
    assert all(float(row["time_loss_s"]) > 0 for row in curve[:3])
    assert float(curve[2]["kl"]) > 0
    read_state_dict(finished / "best.th")


def test_killed_run_goes_on_to_the_same_curve_with_another_number_of_workers(
    finished: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(command(tmp_path, "--workers", "1"), stderr=subprocess.DEVNULL)
    while not (tmp_path / "checkpoint.pt").exists():
        assert process.poll() is None
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive  # workers end with the trainer
    assert run(tmp_path, "--workers", "1") == ""
    assert read_curve(tmp_path) == read_curve(finished)


def test_unusable_checkpoint_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(os.urandom(1000))
    errors = run(tmp_path)
    assert "checkpoint.pt: not a checkpoint" in errors
    assert "Traceback" not in errors


def test_start_from_weights_that_are_not_finite_ends_the_run_with_a_sentence(
    tmp_path: Path, finished: Path
) -> None:
    weights = read_state_dict(finished / "best.th")
    weights["fc2.bias"][0] = torch.nan
    torch.save(weights, tmp_path / "nan.th")
    errors = run(tmp_path, "--warm-start", str(tmp_path / "nan.th"))
    assert "nan.th: fc2.bias has values that are not finite" in errors
    assert "Traceback" not in errors
