"""The form of the supervisors' lines in ``logs/``."""

import json
import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
from serve_app.processes.supervision.__main__ import _log_to_stderr
from serve_app.processes.supervision.managed_process import logger
from serve_app.processes.process_tags import Role

_log_to_stderr(Role.EDGE)
for n in range(1000):
    logger.warning("%s", f"The edge has ended, {n}.")
"""


@pytest.fixture(scope="module", params=["text", "json"])
def form(request):
    return str(request.param)


def test_lines_are_text_or_json_and_a_crash_loop_writes_few(form):
    env = os.environ | {"LOG_FORMAT": form}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    lines = ran.stderr.splitlines()
    assert 1 <= len(lines) <= 20
    if form == "json":
        first = json.loads(lines[0])
        assert first["component_name"] == "supervisor_edge"
        assert (first["levelname"], first["message"]) == ("WARNING", "The edge has ended, 0.")
    else:
        assert re.fullmatch(r"[-\d]+ [:\d,]+ WARNING The edge has ended, 0\.", lines[0])
