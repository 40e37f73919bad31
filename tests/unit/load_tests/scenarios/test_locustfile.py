"""The flood of the scenario `overload`: a wrk that fails does not go unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from load_tests.harness.shipped import ROOT

# in a separate process, because Locust changes the process that imports it
CODE = """
from types import SimpleNamespace
from load_tests.scenarios.locustfile import Flood
options = SimpleNamespace(connections=1800, run_time=60)
environment = SimpleNamespace(
    runner=None, parsed_options=options, host="http://127.0.0.1:1", process_exit_code=None
)
flood = Flood()
flood.start(environment)
if not RUNS:
    flood._process.wait()
flood.stop(environment=environment)
print(environment.process_exit_code)
"""


@pytest.mark.parametrize(
    ("wrk", "code"),
    [("exit 1", "1"), ("exit 0", "None"), ("exec sleep 60", "None")],
    ids=["failed", "completed", "runs"],
)
def test_a_flood_fails_the_test_only_when_wrk_has_failed(tmp_path: Path, wrk: str, code: str):
    program = tmp_path / "wrk"
    program.write_text(f"#!/bin/sh\n{wrk}\n")
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", CODE.replace("RUNS", str("sleep" in wrk))],
        cwd=ROOT,
        env=os.environ | {"PATH": path, "LOAD_SCENARIO": "overload"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.splitlines()[-1] == code
