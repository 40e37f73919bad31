"""What simulations leave behind when they are killed."""

import os
import subprocess
import sys
import tempfile

from lab.processes import RunFolder

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
