from __future__ import annotations

import csv
from pathlib import Path

from models.training.mappo.log import Log


def test_log_drops_rows_that_no_checkpoint_stands_behind(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.csv", iteration=0)
    for iteration in range(3):
        log.write({"iteration": iteration, "reward": -0.5})
    Log(tmp_path / "log.csv", iteration=2).write({"iteration": 2, "reward": -0.25})
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = [(row["iteration"], row["reward"]) for row in csv.DictReader(file)]
    assert rows == [("0", "-0.5"), ("1", "-0.5"), ("2", "-0.25")]
