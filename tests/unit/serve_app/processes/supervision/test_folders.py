"""A supervisor believes nothing in a folder that other users can write to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from serve_app.processes.process_tags import Role
from serve_app.processes.supervision.supervisord import MODULE


@pytest.mark.parametrize("role", [Role.RAY_SUPERVISOR, Role.EDGE])
def test_it_ends_with_one_sentence_before_it_starts_anything(tmp_path, role):
    folder = tmp_path / "ports-31000"
    folder.mkdir()
    folder.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, role, "--port-base", "31000"],
        env=os.environ | {"DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Other users can write to {folder}. Remove what is not yours")
    assert len(done.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []
