"""What simulations leave behind when they are killed."""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import BrokenExecutor
from functools import partial

import pytest

from lab.processes import RunFolder, in_fresh_process

KEPT: list[int] = []
HOLDS = "from lab.processes import RunFolder; f = RunFolder(); print(f.name, flush=True); input()"


def test_the_folder_of_a_killed_process_is_removed_with_the_next_and_no_other(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout
    held = holder.stdout.readline().strip()
    try:
        os.utime(f"{held}/lock", (0, 0))
        with RunFolder():
            assert os.path.exists(held)
    finally:
        holder.kill()
        holder.communicate()
    assert os.path.exists(held)
    with RunFolder() as mine:
        assert os.listdir(tmp_path) == [os.path.basename(mine)]
    assert os.listdir(tmp_path) == []


def keep_process() -> list[int]:
    KEPT.append(os.getpid())
    return KEPT


def test_a_fresh_process_returns_its_result_and_leaves_nothing():
    first, second = in_fresh_process(keep_process), in_fresh_process(keep_process)
    assert len({*first, *second, os.getpid()}) == 3
    assert KEPT == []


def test_a_fresh_process_raises_what_the_function_raises():
    with pytest.raises(ValueError, match="no number"):
        in_fresh_process(partial(int, "no number"))


def test_a_fresh_process_that_ends_without_a_result_is_an_error():
    with pytest.raises(BrokenExecutor):
        in_fresh_process(partial(os._exit, 0))
